package main

// compat calls getpid as a 32-bit program would. A kernel without that ABI, and a
// filter that knows better, end the process.
func compat() int
