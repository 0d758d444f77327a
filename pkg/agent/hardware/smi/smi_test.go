package smi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
)

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestAnH200 reads what driver 580.159.04 said of a real card.
func TestAnH200(t *testing.T) {
	got, err := Parse(recorded(t, "h200.xml"))
	if err == nil {
		err = got.AddTopology(recorded(t, "h200-topo.txt"))
	}
	if err != nil {
		t.Fatal(err)
	}
	want := Machine{Driver: "580.159.04", NVLinks: map[[2]int]int{}, GPUs: []GPU{{
		UUID: "GPU-dbe02863-7b8b-62cc-abfd-0184761e5f14", Product: "NVIDIA H200", BusID: "00000000:00:06.0", Minor: new(0),
		MemoryMiB: new(int64(143771)), ReservedMiB: new(int64(616)), NUMANode: new(0), Signs: hardware.Signs{RecoveryKnown: true},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}

// TestMIGAndTwoModels: slices, signs of a sick card, and a card that answers with errors.
func TestMIGAndTwoModels(t *testing.T) {
	got, err := Parse(recorded(t, "mig-and-two-models.xml"))
	if err != nil {
		t.Fatal(err)
	}
	memory, reserved := new(int64(81920)), new(int64(571))
	want := Machine{Driver: "570.86.15", GPUs: []GPU{
		{UUID: "GPU-a", Product: "NVIDIA A100-SXM4-80GB", BusID: "00000000:07:00.0", Minor: new(2), MemoryMiB: memory, ReservedMiB: reserved, MIG: true,
			SlicesMiB: []int64{9728, 40192}, Signs: hardware.Signs{RecoveryKnown: true}},
		{UUID: "GPU-b", Product: "NVIDIA A100-SXM4-80GB", BusID: "00000000:0F:00.0", Minor: new(3), MemoryMiB: memory, ReservedMiB: reserved,
			Signs: hardware.Signs{Recovery: hardware.RecoveryReset, RecoveryKnown: true, RowRemapFailed: true, ThermalSlowdown: true}},
		{UUID: "GPU-c", Product: "NVIDIA DGX Display", BusID: "00000000:0E:00.0"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}

func TestLinksOfTheMatrix(t *testing.T) {
	matrix := "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
		"GPU0\t X \tNV18\tSYS\tPXB\t0-55\t0\t\tN/A\nGPU1\tNV18\t X \tNV4\tPXB\t56-111\t1\t\tN/A\n" +
		"GPU2\tSYS\tNV4\t X \tPXB\t0-111\t0-1\t\tN/A\nNIC0\tPXB\tPXB\tPXB\t X \n\nLegend:\n"
	got := Machine{GPUs: make([]GPU, 3)}
	if err := got.AddTopology([]byte(matrix)); err != nil {
		t.Fatal(err)
	}
	want := Machine{GPUs: []GPU{{NUMANode: new(0)}, {NUMANode: new(1)}, {}}, NVLinks: map[[2]int]int{{0, 1}: 18, {1, 2}: 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
	if err := got.AddTopology([]byte("Failed to initialize NVML: Driver/library version mismatch\n")); err == nil {
		t.Error("a matrix without a head is no error")
	}
	if _, err := Parse([]byte("No devices were found\n")); err == nil {
		t.Error("text that is no XML is no error")
	}
}
