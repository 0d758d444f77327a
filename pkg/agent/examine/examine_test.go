package examine

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/smi"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

func machine(t *testing.T, file string) smi.Machine {
	t.Helper()
	data, err := os.ReadFile("../hardware/smi/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := smi.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// h200 is what the agent said of the real card whose XML is recorded.
func h200() AgentView {
	uuid := "GPU-dbe02863-7b8b-62cc-abfd-0184761e5f14"
	return AgentView{
		Driver: "580.159.04", Health: map[string]string{uuid: gpu.Healthy},
		Specs:   map[string]Spec{uuid: {Source: "made by the agent", Nodes: []string{"/dev/nvidiactl", "/dev/nvidia0"}}},
		Runtime: "none", MPS: "not used",
		Fleet: hardware.Fleet{GPUs: []hardware.GPU{{
			UUID: uuid, Minor: new(0), Product: "NVIDIA H200", MemoryMiB: 143771, ReservedMiB: new(int64(640)), Signs: hardware.Signs{RecoveryKnown: true},
		}}},
	}
}

// names are the names of the facts that differ.
func names(said *AgentView, m *smi.Machine) []string {
	var out []string
	for _, fact := range Differences(Compare(said, m)) {
		out = append(out, fact.Name)
	}
	return out
}

func TestNothingDiffersOnTheRealCard(t *testing.T) {
	said, m := h200(), machine(t, "h200.xml")
	if diff := cmp.Diff([]string(nil), names(&said, &m)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestEachDifferenceIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*AgentView, *smi.Machine)
		want   []string
	}{
		"another driver": {func(s *AgentView, _ *smi.Machine) { s.Driver = "570.86.15" }, []string{"driver"}},
		"another card":   {func(s *AgentView, _ *smi.Machine) { s.Fleet.GPUs[0].UUID = "GPU-x" }, []string{"UUID"}},
		"another model":  {func(s *AgentView, _ *smi.Machine) { s.Fleet.GPUs[0].Product = "NVIDIA H100" }, []string{"product"}},
		"another node":   {func(s *AgentView, _ *smi.Machine) { s.Fleet.GPUs[0].Minor = new(1) }, []string{"device node"}},
		"less memory":    {func(s *AgentView, _ *smi.Machine) { s.Fleet.GPUs[0].MemoryMiB = 81559 }, []string{"memory MiB"}},
		"too little that the driver keeps": {
			func(s *AgentView, _ *smi.Machine) { s.Fleet.GPUs[0].ReservedMiB = new(int64(576)) }, []string{"reserved MiB"}},
		"nothing said of what the driver keeps": {
			func(s *AgentView, _ *smi.Machine) { s.Fleet.GPUs[0].ReservedMiB = nil }, []string{"reserved MiB"}},
		"another NUMA node": {
			func(s *AgentView, m *smi.Machine) { s.Fleet.GPUs[0].NUMANode, m.GPUs[0].NUMANode = new(1), new(0) }, []string{"NUMA node"}},
		"a NUMA node that only one knows": {func(_ *AgentView, m *smi.Machine) { m.GPUs[0].NUMANode = new(0) }, nil},
		"a link that the agent misses":    {func(_ *AgentView, m *smi.Machine) { m.NVLinks = map[[2]int]int{{0, 1}: 18} }, []string{"NVLinks"}},
		"a fault that the agent misses":   {func(_ *AgentView, m *smi.Machine) { m.GPUs[0].Signs.RowRemapFailed = true }, []string{"health"}},
		"MIG mode":                        {func(s *AgentView, _ *smi.Machine) { s.Fleet.GPUs[0].MIG = true }, []string{"MIG mode"}},
		"no spec": {func(s *AgentView, m *smi.Machine) {
			s.Specs[s.Fleet.GPUs[0].UUID] = Spec{Refused: "no CDI spec"}
		}, []string{"CDI spec of GPU-dbe02863-7b8b-62cc-abfd-0184761e5f14"}},
		"a card that only nvidia-smi has": {func(_ *AgentView, m *smi.Machine) { m.GPUs = append(m.GPUs, smi.GPU{UUID: "GPU-y"}) }, []string{"cards", "card"}},
		"a card that only the agent has":  {func(_ *AgentView, m *smi.Machine) { m.GPUs = nil }, []string{"cards", "card"}},
		"a card that says nothing":        {func(s *AgentView, _ *smi.Machine) { s.Fleet.Unread = []string{"card 1: lost"} }, []string{"unread"}},
	} {
		t.Run(name, func(t *testing.T) {
			said, m := h200(), machine(t, "h200.xml")
			tc.change(&said, &m)
			if diff := cmp.Diff(tc.want, names(&said, &m)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMIGAndLinks: slices are compared by their memory, as nvidia-smi's XML names neither their UUIDs nor their profiles, and links by pairs.
func TestMIGAndLinks(t *testing.T) {
	m := machine(t, "mig-and-two-models.xml")
	m.NVLinks = map[[2]int]int{{0, 1}: 12}
	reset := hardware.Signs{Recovery: hardware.RecoveryReset, RecoveryKnown: true, RowRemapFailed: true, ThermalSlowdown: true, LinksDown: 1}
	reserved := new(int64(576))
	said := AgentView{
		Driver: "570.86.15", Specs: map[string]Spec{}, Health: map[string]string{},
		Fleet: hardware.Fleet{
			Links: []gpu.Link{{GPUs: []int{0, 1}, NVLinks: 12}},
			GPUs: []hardware.GPU{
				{UUID: "GPU-a", Index: 0, Minor: new(2), Product: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920, ReservedMiB: reserved, MIG: true, Slices: []hardware.Slice{
					{UUID: "MIG-1", Profile: "3g.40gb", MemoryMiB: 40192}, {UUID: "MIG-2", Profile: "1g.10gb", MemoryMiB: 9728}}},
				{UUID: "GPU-b", Index: 1, Minor: new(3), Product: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920, ReservedMiB: reserved, Signs: reset},
				{UUID: "GPU-c", Index: 2, Product: "NVIDIA DGX Display", MemoryMiB: 4096},
			},
		},
	}
	// The display card answers nvidia-smi with an error.
	if diff := cmp.Diff([]string{"memory MiB"}, names(&said, &m)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	said.Fleet.GPUs[0].Slices = said.Fleet.GPUs[0].Slices[:1]
	if got := strings.Join(names(&said, &m), " "); !strings.Contains(got, "slices MiB") {
		t.Errorf("differences %s, want the slices", got)
	}
}
