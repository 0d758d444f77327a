package cli

import (
	"strings"
	"testing"
)

// TestValidateWarnsOfTheTypeOfAService: a file without a service has no type to leave out.
func TestValidateWarnsOfTheTypeOfAService(t *testing.T) {
	alone := strings.Replace(trainingYAML, "training", "inference", 1)
	for yaml, warns := range map[string]bool{alone: false, alone + "service: {port: 80}\n": true, alone + "service: {port: 80, type: NodePort}\n": false} {
		code, stdout, stderr := gpuctl(t, yaml, "validate", "-f", "-")
		if code != 0 || strings.Contains(stderr, "service.type is") != warns {
			t.Errorf("exit code %d, want a warning: %v\n%s%s", code, warns, stdout, stderr)
		}
	}
}
