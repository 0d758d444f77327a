// Package hardware is what the agent knows of a node's cards: a small interface over NVIDIA's management library, with
// the values it returns. Package nvml talks to the driver, package fake to a file; nothing else does.
package hardware

import (
	"context"
	"errors"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// ReservedStepMiB is the step to which [Card.ReservedMiB] is rounded up, so that some bytes more or less neither make cards of one model
// differ nor change what the node says of them.
const ReservedStepMiB = 64

// ErrLost is returned for a card that the driver no longer reaches.
var ErrLost = errors.New("the card has fallen off the bus")

// Library is the driver's view of the node. Every call may block for as long as the driver does, and may fail. It is safe
// for use from many goroutines.
type Library interface {
	// Version names the library and the driver, for logs.
	Version() string
	// Driver is the driver's version, as nvidia-smi writes it.
	Driver() string
	// Read returns all cards as they are now, in order of index.
	Read() (Fleet, error)
	// Wait returns the next event of any card, or ctx's error.
	Wait(ctx context.Context) (Event, error)
	// Processes returns who uses a card or a slice.
	Processes(uuid string) ([]Process, error)
	// Edits returns what makes some cards or slices usable in a container: device nodes, libraries, hooks.
	Edits(uuids []string) (specs.ContainerEdits, error)
	// Source says where the Edits of a card or slice are from, "" where there are none.
	Source(uuid string) string
}

// Fleet is all cards of a node.
type Fleet struct {
	Cards []Card
	// Links are the NVLink connections between cards, by index.
	Links []gpu.Link
	// Unread tells of cards that are there and have said nothing yet, such as one that broke before the machine started.
	Unread []string
}

// Card is one GPU.
type Card struct {
	// UUID identifies the card, as the driver names it.
	UUID string
	// Index is the driver's number of the card.
	Index int
	// Minor is the number of the card's device node, /dev/nvidiaMINOR; nil where the driver does not say it. It is often another than Index.
	Minor *int
	// Product is the driver's name of the model, such as NVIDIA A100-SXM4-80GB.
	Product string
	// MemoryMiB is all of the card's memory.
	MemoryMiB int64
	// ReservedMiB is what the driver keeps of it, nil where the driver does not say.
	ReservedMiB *int64
	// NUMANode is nil where the driver does not know it.
	NUMANode *int
	// PCIeSwitch is the bus address of the switch over the card, "" where there is none.
	PCIeSwitch string
	// MIG is whether the card is in MIG mode: then it is given out as Slices, and never whole.
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

// Signs are what the driver says of a card's health at one moment. The zero value is a healthy card, or a driver that
// does not know.
type Signs struct {
	// Lost tells that the card does not answer.
	Lost bool
	// Failing tells that it answers with an error, which may pass.
	Failing bool
	// Recovery is what the driver asks for. It is the verdict that XID 154 announces. RecoveryKnown tells whether the driver
	// has one; drivers before 570 do not.
	Recovery      Recovery
	RecoveryKnown bool
	// RowRemapFailed tells that memory went bad and no spare row was left.
	RowRemapFailed bool
	// RowRemapPending tells that a bad row is replaced at the next reset. The card works until then.
	RowRemapPending bool
	// ThermalSlowdown tells that the hardware slows the card down because it is too hot.
	ThermalSlowdown bool
	// LinksDown is the number of NVLinks that should be up and are not.
	LinksDown int
}

// Recovery is what the driver asks to be done with a card.
type Recovery string

// What a driver can ask for.
const (
	RecoveryNone   Recovery = ""
	RecoveryReset  Recovery = "Reset"
	RecoveryReboot Recovery = "Reboot"
)

// Event is an error that the driver reports when it happens.
type Event struct {
	// UUID is the card; "" is all cards.
	UUID string
	// XID is NVIDIA's number of the error.
	XID uint64
}

// Process is a program that has memory of a card.
type Process struct {
	PID     int
	UsedMiB int64
}
