// Package smi reads the output of nvidia-smi on a machine's GPUs in the forms that it has for programs: the XML of -q -x, and the matrix of topo -m,
// which is its only output that names the links between GPUs.
package smi

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
)

// Machine is the machine as nvidia-smi reports it.
type Machine struct {
	Driver string
	// GPUs are in the order of the driver's numbers.
	GPUs []GPU
	// NVLinks counts the links between two GPUs, by index, the lower one first; nil where topo -m was not read.
	NVLinks map[[2]int]int
}

// GPU is a GPU as nvidia-smi reports it. Values that it does not report, N/A or an error, are nil.
type GPU struct {
	UUID, Product, BusID string
	Minor                *int
	MemoryMiB            *int64
	ReservedMiB          *int64
	NUMANode             *int
	MIG                  bool
	// SlicesMiB are the memory of the MIG slices, ascending: their UUIDs and profiles are not in the XML.
	SlicesMiB []int64
	Signs     hardware.Signs
}

// document is the part of nvsmi_device.dtd that is compared.
type document struct {
	Driver string `xml:"driver_version"`
	Cards  []struct {
		BusID    string   `xml:"id,attr"`
		Product  string   `xml:"product_name"`
		UUID     string   `xml:"uuid"`
		Minor    string   `xml:"minor_number"`
		Total    string   `xml:"fb_memory_usage>total"`
		Reserved string   `xml:"fb_memory_usage>reserved"`
		MIG      string   `xml:"mig_mode>current_mig"`
		Slices   []string `xml:"mig_devices>mig_device>fb_memory_usage>total"`
		Recovery string   `xml:"gpu_recovery_action"`
		Failed   string   `xml:"remapped_rows>remapped_row_failure"`
		Pending  string   `xml:"remapped_rows>remapped_row_pending"`
		// Thermal is called after throttling by drivers before 535.
		Thermal    string `xml:"clocks_event_reasons>clocks_event_reason_hw_thermal_slowdown"`
		ThermalOld string `xml:"clocks_throttle_reasons>clocks_throttle_reason_hw_thermal_slowdown"`
	} `xml:"gpu"`
}

// Parse reads the output of nvidia-smi -q -x.
func Parse(output []byte) (Machine, error) {
	var parsed document
	if err := xml.Unmarshal(output, &parsed); err != nil {
		return Machine{}, fmt.Errorf("reading the XML of nvidia-smi: %w", err)
	}
	machine := Machine{Driver: parsed.Driver}
	for _, said := range parsed.Cards {
		card := GPU{
			UUID: said.UUID, Product: said.Product, BusID: said.BusID, MemoryMiB: parseMebibytes(said.Total), ReservedMiB: parseMebibytes(said.Reserved),
			MIG: said.MIG == "Enabled",
		}
		if minor, err := strconv.Atoi(said.Minor); err == nil {
			card.Minor = &minor
		}
		for _, total := range said.Slices {
			if size := parseMebibytes(total); size != nil {
				card.SlicesMiB = append(card.SlicesMiB, *size)
			}
		}
		slices.Sort(card.SlicesMiB)
		card.Signs = hardware.Signs{
			RowRemapFailed: said.Failed == "Yes", RowRemapPending: said.Pending == "Yes",
			ThermalSlowdown: said.Thermal == "Active" || said.ThermalOld == "Active",
		}
		card.Signs.Recovery, card.Signs.RecoveryKnown = parseRecovery(said.Recovery)
		machine.GPUs = append(machine.GPUs, card)
	}
	return machine, nil
}

// parseRecovery reads the driver's verdict: None, Reset, Reboot, Drain P2P, Drain and Reset.
func parseRecovery(said string) (hardware.Recovery, bool) {
	switch said {
	case "", "N/A":
		return hardware.RecoveryNone, false
	case "None":
		return hardware.RecoveryNone, true
	case "Reboot":
		return hardware.RecoveryReboot, true
	}
	return hardware.RecoveryReset, true
}

// parseMebibytes reads "143771 MiB", nil for all else.
func parseMebibytes(text string) *int64 {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), " MiB")
	if !ok {
		return nil
	}
	size, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil
	}
	return &size
}

var (
	// escapes underline the head of the matrix.
	escapes     = regexp.MustCompile("\x1b\\[[0-9;]*m")
	cardPattern = regexp.MustCompile(`^GPU([0-9]+)$`)
	linkPattern = regexp.MustCompile(`^NV([0-9]+)$`)
)

// AddTopology reads the output of nvidia-smi topo -m: the links between GPUs and, where it prints a single one, their NUMA nodes.
func (m *Machine) AddTopology(output []byte) error {
	lines := strings.Split(escapes.ReplaceAllString(string(output), ""), "\n")
	head := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "CPU Affinity") })
	if head < 0 {
		return fmt.Errorf("the matrix of nvidia-smi topo -m has no head")
	}
	columns := splitCells(lines[head])
	m.NVLinks = map[[2]int]int{}
	for _, line := range lines[head+1:] {
		row := splitCells(line)
		found := cardPattern.FindStringSubmatch(row[0])
		if found == nil {
			continue
		}
		from, _ := strconv.Atoi(found[1])
		for i := 1; i < min(len(row), len(columns)); i++ {
			m.addCell(from, columns[i], row[i])
		}
	}
	return nil
}

// splitCells splits a line of the matrix. The first column has no title.
func splitCells(line string) []string {
	out := strings.Split(line, "\t")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

func (m *Machine) addCell(from int, column, text string) {
	if node, err := strconv.Atoi(text); err == nil && column == "NUMA Affinity" && from < len(m.GPUs) {
		m.GPUs[from].NUMANode = &node
	}
	card, link := cardPattern.FindStringSubmatch(column), linkPattern.FindStringSubmatch(text)
	if card == nil || link == nil {
		return
	}
	to, _ := strconv.Atoi(card[1])
	count, _ := strconv.Atoi(link[1])
	if from < to {
		m.NVLinks[[2]int{from, to}] = count
	}
}
