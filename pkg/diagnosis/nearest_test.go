package diagnosis

import "testing"

// TestNearestType: people write the model, and feature discovery writes more around it.
func TestNearestType(t *testing.T) {
	known := []string{"NVIDIA-A10", "NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-GH200-480GB", "NVIDIA-L4", "NVIDIA-L40", "Tesla-T4"}
	for asked, want := range map[string]string{
		"T4": "Tesla-T4", "tesla-t4": "Tesla-T4", "L4": "NVIDIA-L4", "l40": "NVIDIA-L40", "A100": "NVIDIA-A100-PCIE-40GB",
		"A100-SXM4": "NVIDIA-A100-SXM4-80GB", "GH200": "NVIDIA-GH200-480GB", "H100": "", "Tesla": "Tesla-T4", "NVIDIA-L41": "",
	} {
		if got := nearestType(asked, known); got != want {
			t.Errorf("%s: %q, want %q", asked, got, want)
		}
	}
}
