// Package nvml is NVIDIA's driver, through its library NVML, which is loaded when the agent starts. It is the only package
// that needs cgo; in a build without, it says so.
package nvml
