//go:build race

package workload

// raceFactor is how many times the processor time of a program the race detector takes, at most: 2 to 20 by its manual.
const raceFactor = 20
