// Package examine compares the agent's view of a machine with that of nvidia-smi. It is pure: both go in as values.
package examine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/smi"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// AgentView is the agent's view.
type AgentView struct {
	// Driver is the driver's version.
	Driver string
	Fleet  hardware.Fleet
	// Health is [gpu.Healthy] or what is wrong, by UUID of the GPU.
	Health map[string]string
	// Labels are what the agent would write on a node without any of them.
	Labels map[string]string
	// Specs are where the containers of a GPU or slice get their device nodes and libraries from, by UUID.
	Specs map[string]Spec
	// Runtime and MPS describe the container runtime and MPS.
	Runtime, MPS string
}

// Spec is the CDI spec of a GPU or a slice.
type Spec struct {
	// Source is a file, or "the agent" if it generates the spec itself.
	Source string
	// Nodes are the paths of the device nodes, and Mounts how many files and folders of the driver there are beside them.
	Nodes  []string
	Mounts int
	// Refused is why containers would get nothing, "" if they get what they need.
	Refused string
}

// Fact is one line of the comparison.
type Fact struct {
	// Of is "node", or a GPU's UUID.
	Of string `json:"of"`
	// Name is what is compared.
	Name string `json:"name"`
	// Agent and SMI are the two values. SMI is "" if nvidia-smi does not print it in a form for programs.
	Agent string `json:"agent"`
	SMI   string `json:"nvidiaSMI,omitempty"`
	// Differs is true if the two do not match, or if containers would get no GPUs.
	Differs bool `json:"differs,omitempty"`
}

// OfNode is [Fact.Of] for what is no GPU's.
const OfNode = "node"

const unknown = "unknown"

// Compare returns all facts, the node's first and then GPU by GPU in the order of the driver's numbers.
func Compare(said *AgentView, machine *smi.Machine) []Fact {
	var facts []Fact
	add := func(of, name, agent, other string, differs bool) {
		facts = append(facts, Fact{Of: of, Name: name, Agent: agent, SMI: other, Differs: differs})
	}
	same := func(of, name, agent, other string) { add(of, name, agent, other, agent != other) }
	same(OfNode, "driver", said.Driver, machine.Driver)
	same(OfNode, "cards", strconv.Itoa(len(said.Fleet.GPUs)), strconv.Itoa(len(machine.GPUs)))
	for _, unread := range said.Fleet.Unread {
		add(OfNode, "unread", unread, "", true)
	}
	for _, name := range slices.Sorted(maps.Keys(said.Labels)) {
		add(OfNode, "label "+name, said.Labels[name], "", false)
	}
	add(OfNode, "container runtime", said.Runtime, "", false)
	add(OfNode, "MPS", said.MPS, "", false)
	same(OfNode, "NVLinks", linksText(countLinks(said.Fleet.Links)), linksText(machine.NVLinks))
	for i := range max(len(said.Fleet.GPUs), len(machine.GPUs)) {
		switch {
		case i >= len(said.Fleet.GPUs):
			add(machine.GPUs[i].UUID, "card", "", machine.GPUs[i].Product, true)
		case i >= len(machine.GPUs):
			add(said.Fleet.GPUs[i].UUID, "card", said.Fleet.GPUs[i].Product, "", true)
		default:
			facts = append(facts, compareGPU(said, &said.Fleet.GPUs[i], &machine.GPUs[i], i)...)
		}
	}
	return facts
}

// compareGPU compares two views of the GPU with a number of the driver.
func compareGPU(said *AgentView, card *hardware.GPU, other *smi.GPU, index int) []Fact {
	var facts []Fact
	add := func(name, agent, smi string, differs bool) {
		facts = append(facts, Fact{Of: card.UUID, Name: name, Agent: agent, SMI: smi, Differs: differs})
	}
	same := func(name, agent, smi string) { add(name, agent, smi, agent != smi) }
	same("index", strconv.Itoa(card.Index), strconv.Itoa(index))
	same("UUID", card.UUID, other.UUID)
	same("product", card.Product, other.Product)
	same("device node", numberText(card.Minor), numberText(other.Minor))
	same("memory MiB", strconv.FormatInt(card.MemoryMiB, 10), numberText(other.MemoryMiB))
	add("reserved MiB", numberText(card.ReservedMiB), numberText(other.ReservedMiB), !fitsReserved(card.ReservedMiB, other.ReservedMiB))
	// A machine with one NUMA node may not report which it is, and nvidia-smi then prints 0.
	numaDiffers := card.NUMANode != nil && other.NUMANode != nil && *card.NUMANode != *other.NUMANode
	add("NUMA node", numberText(card.NUMANode), numberText(other.NUMANode), numaDiffers)
	add("PCIe switch", cmp.Or(card.PCIeSwitch, "none"), "", false)
	same("MIG mode", onOffText(card.MIG), onOffText(other.MIG))
	if card.MIG || other.MIG {
		same("slices MiB", sizesText(sliceSizes(card)), sizesText(other.SlicesMiB))
	}
	add("health", said.Health[card.UUID], signsText(other.Signs), signsText(withoutLinks(card.Signs)) != signsText(other.Signs))
	for _, uuid := range containerUUIDs(card) {
		spec := said.Specs[uuid]
		if spec.Refused != "" {
			add("CDI spec of "+uuid, spec.Refused, "", true)
			continue
		}
		add("CDI spec of "+uuid, fmt.Sprintf("%s: %s, %d mounts", spec.Source, strings.Join(spec.Nodes, " "), spec.Mounts), "", false)
	}
	return facts
}

// containerUUIDs returns the UUIDs of a GPU that containers can get: its own, or those of its slices.
func containerUUIDs(card *hardware.GPU) []string {
	if !card.MIG {
		return []string{card.UUID}
	}
	var uuids []string
	for _, slice := range card.Slices {
		uuids = append(uuids, slice.UUID)
	}
	return uuids
}

func sliceSizes(card *hardware.GPU) []int64 {
	var sizes []int64
	for _, slice := range card.Slices {
		sizes = append(sizes, slice.MemoryMiB)
	}
	slices.Sort(sizes)
	return sizes
}

func sizesText(sizes []int64) string {
	if len(sizes) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(sizes), "[]")
}

// fitsReserved reports whether the agent's value of the driver's reservation matches that of nvidia-smi, rounded up: both round, by bytes and MiB.
func fitsReserved(agent, other *int64) bool {
	if agent == nil || other == nil {
		return agent == nil && other == nil
	}
	return *agent >= *other-1 && *agent <= *other+hardware.ReservedStepMiB
}

// withoutLinks removes links that nvidia-smi does not report.
func withoutLinks(signs hardware.Signs) hardware.Signs {
	signs.LinksDown = 0
	return signs
}

// signsText describes the faults of a GPU.
func signsText(signs hardware.Signs) string {
	var wrong []string
	for _, sign := range []struct {
		there bool
		text  string
	}{
		{signs.Lost, "lost"}, {signs.Failing, "answers with errors"}, {signs.Recovery != hardware.RecoveryNone, "asks for a " + string(signs.Recovery)},
		{signs.RowRemapFailed, "no spare row left"}, {signs.RowRemapPending, "a row is replaced at the next reset"}, {signs.ThermalSlowdown, "slowed down by heat"},
	} {
		if sign.there {
			wrong = append(wrong, sign.text)
		}
	}
	if len(wrong) == 0 {
		return gpu.Healthy
	}
	return strings.Join(wrong, ", ")
}

// countLinks expands links between several GPUs into pairs.
func countLinks(links []gpu.Link) map[[2]int]int {
	counts := map[[2]int]int{}
	for _, link := range links {
		for _, from := range link.GPUs {
			for _, to := range link.GPUs {
				if from < to {
					counts[[2]int{from, to}] += link.NVLinks
				}
			}
		}
	}
	return counts
}

func linksText(counts map[[2]int]int) string {
	var told []string
	for _, pair := range slices.SortedFunc(maps.Keys(counts), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		told = append(told, fmt.Sprintf("%d-%d:%d", pair[0], pair[1], counts[pair]))
	}
	return cmp.Or(strings.Join(told, " "), "none")
}

func numberText[T int | int64](n *T) string {
	if n == nil {
		return unknown
	}
	return strconv.FormatInt(int64(*n), 10)
}

func onOffText(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Differences returns the facts that differ.
func Differences(facts []Fact) []Fact {
	return slices.DeleteFunc(slices.Clone(facts), func(fact Fact) bool { return !fact.Differs })
}
