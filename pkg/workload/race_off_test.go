//go:build !race

package workload

// raceFactor is that of a program without the race detector.
const raceFactor = 1
