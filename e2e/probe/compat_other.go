//go:build !amd64

package main

// compat has no way to call as a 32-bit program would.
func compat() int { return -1 }
