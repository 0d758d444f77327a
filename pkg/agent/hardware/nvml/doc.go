// Package nvml is NVIDIA's driver, through its library NVML, which is loaded when the agent starts. It is the only package that needs cgo. In a build
// without cgo it returns an error.
package nvml
