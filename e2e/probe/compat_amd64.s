#include "textflag.h"

// func compat() int
TEXT ·compat(SB), NOSPLIT, $0-8
	MOVQ $20, AX // getpid
	INT  $0x80
	MOVQ AX, ret+0(FP)
	RET
