package gpu

import "encoding/binary"

// Hardware is the hardware that an allocator's choices depend on, apart from what is in use: how its GPUs are connected, how large and how healthy they
// are. Nodes with equal hardware and equal [State]s get the same positions for every demand, so that results for one of them hold for the others. It
// is compared by its address; at times, equal nodes have different ones.
type Hardware struct {
	topology     *Topology
	all, healthy Set
	memoryMiB    [MaxGPUs]int64
	shareableMiB [MaxGPUs]int64
	models       string
}

// Hardware returns the hardware that the allocator's choices depend on.
func (a *Allocator) Hardware() *Hardware { return a.hardware }

// maxHardware bounds how many hardware values are cached. Beyond it all are dropped, as with [maxTopologies]. Each takes a KiB, and machines whose GPUs
// differ by some MiB each have their own.
const maxHardware = 1 << 15

// internHardware returns the known hardware that equals b.
func (k *Topologies) internHardware(b Hardware) *Hardware {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.hardware[b]; known != nil {
		return known
	}
	if k.hardware == nil || len(k.hardware) >= maxHardware {
		k.hardware = map[Hardware]*Hardware{}
	}
	k.hardware[b] = &b
	return &b
}

// State is what is in use on a node, in a form that can be compared and looked up.
type State struct {
	whole, shared Set
	unknown       Unknown
	// sharedMiB is the memory in use on each shared GPU, 8 bytes for each in order of position.
	sharedMiB string
}

// State returns what is in use. Two states are equal if and only if an allocator cannot distinguish them.
func (u *Used) State() State {
	s := State{whole: u.whole, shared: u.shared, unknown: u.unknown}
	if u.shared == 0 {
		return s
	}
	memory := make([]byte, 0, 8*MaxGPUs)
	for rest := u.shared; rest != 0; rest &= rest - 1 {
		memory = binary.BigEndian.AppendUint64(memory, uint64(u.sharedMiB[rest.First()]))
	}
	s.sharedMiB = string(memory)
	return s
}
