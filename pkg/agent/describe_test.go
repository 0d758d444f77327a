package agent

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestTheFakeCanBeTheRealCard holds the fake cards against what gpu-agent check recorded of an H200 with driver 580.159.04, in a virtual machine.
func TestTheFakeCanBeTheRealCard(t *testing.T) {
	data, err := os.ReadFile("testdata/h200-check.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Inventory string
		Labels    map[string]string
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	// The recording is of before the memory in types was rounded up, to what the card is sold as.
	recorded.Labels[names.LabelGPUType] = "H200-141G"
	library, err := fake.Open("testdata/h200.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := library.Read()
	if err != nil {
		t.Fatal(err)
	}
	described := Describe(fleet)
	inventory, err := described.Inventory.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recorded.Inventory, inventory); diff != "" {
		t.Errorf("inventory (-recorded +fake):\n%s", diff)
	}
	if diff := cmp.Diff(recorded.Labels, described.Labels); diff != "" {
		t.Errorf("labels (-recorded +fake):\n%s", diff)
	}
}
