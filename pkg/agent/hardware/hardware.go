// Package hardware is the agent's view of a node's GPUs: a small interface over NVIDIA's management library, with the values it returns. Package nvml
// talks to the driver, package fake to a file; no other package does.
package hardware

import (
	"context"
	"errors"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// ReservedStepMiB is the step to which [GPU.ReservedMiB] is rounded up, so that a few bytes neither make GPUs of one model differ nor change what the
// node publishes.
const ReservedStepMiB = 64

// ErrLost is returned for a GPU that the driver can no longer reach.
var ErrLost = errors.New("the card has fallen off the bus")

// Library is the driver's view of the node. Every call may block for as long as the driver does, and may fail. It is safe
// for use from many goroutines.
type Library interface {
	// Version names the library and the driver, for logs.
	Version() string
	// Driver is the driver's version, as nvidia-smi writes it.
	Driver() string
	// Read returns all GPUs as they are now, in order of index.
	Read() (Fleet, error)
	// Wait returns the next event of any GPU, or ctx's error.
	Wait(ctx context.Context) (Event, error)
	// Processes returns the processes that use a GPU or a slice.
	Processes(uuid string) ([]Process, error)
	// Edits returns what makes some GPUs or slices usable in a container: device nodes, libraries, hooks.
	Edits(uuids []string) (specs.ContainerEdits, error)
	// Source names where the Edits of a GPU or slice come from, "" if there are none.
	Source(uuid string) string
}

// Fleet is all GPUs of a node.
type Fleet struct {
	GPUs []GPU
	// Links are the NVLink connections between GPUs, by index.
	Links []gpu.Link
	// Unread lists GPUs that exist and have not answered yet, such as one that broke before the machine started.
	Unread []string
}

// GPU is one GPU.
type GPU struct {
	// UUID identifies the GPU, as the driver names it.
	UUID string
	// Index is the driver's number of the GPU.
	Index int
	// Minor is the number of the GPU's device node, /dev/nvidiaMINOR; nil if the driver does not report it. It often differs from Index.
	Minor *int
	// Product is the driver's name of the model, such as NVIDIA A100-SXM4-80GB.
	Product string
	// MemoryMiB is all of the GPU's memory.
	MemoryMiB int64
	// ReservedMiB is the part of it that the driver reserves, nil if unknown.
	ReservedMiB *int64
	// NUMANode is nil if unknown.
	NUMANode *int
	// PCIeSwitch is the bus address of the switch over the GPU, "" where there is none.
	PCIeSwitch string
	// MIG is whether the GPU is in MIG mode: then it is allocated as Slices, and never whole.
	MIG    bool
	Slices []Slice
	Signs  Signs
}

// Slice is a MIG device.
type Slice struct {
	// UUID identifies the slice: MIG-….
	UUID string
	// Profile is the profile in NVIDIA's words, such as 3g.20gb.
	Profile   string
	MemoryMiB int64
}

// Signs is the driver's report of a GPU's health at one moment. The zero value is a healthy GPU, or a driver that reports nothing.
type Signs struct {
	// Lost is true if the GPU does not answer.
	Lost bool
	// Failing is true if it answers with an error, which may pass.
	Failing bool
	// Recovery is what the driver asks for. It is the verdict that XID 154 announces. RecoveryKnown is true if the driver has one; drivers before 570
	// do not.
	Recovery      Recovery
	RecoveryKnown bool
	// RowRemapFailed is true if memory went bad and no spare row was left.
	RowRemapFailed bool
	// RowRemapPending is true if a bad row is replaced at the next reset. The GPU works until then.
	RowRemapPending bool
	// ThermalSlowdown is true if the hardware slows the GPU down because it is too hot.
	ThermalSlowdown bool
	// LinksDown is the number of NVLinks that should be up and are not.
	LinksDown int
}

// Recovery is the action that the driver requests for a GPU.
type Recovery string

// The possible requests of a driver.
const (
	RecoveryNone   Recovery = ""
	RecoveryReset  Recovery = "Reset"
	RecoveryReboot Recovery = "Reboot"
)

// Event is an error that the driver reports when it happens.
type Event struct {
	// UUID is the GPU; "" is all GPUs.
	UUID string
	// XID is NVIDIA's number of the error.
	XID uint64
}

// Process is a program that has memory of a GPU.
type Process struct {
	PID     int
	UsedMiB int64
}
