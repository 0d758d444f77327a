package diagnosis

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// TestAdviceOnClaimsNamesTheirNamespace: who follows it stands in another one.
func TestAdviceOnClaimsNamesTheirNamespace(t *testing.T) {
	for _, verdict := range []string{
		"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
		"0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.",
	} {
		found := verdictFindings(verdict, "team-a", reason.ClaimReasons)
		if len(found) != 1 || len(found[0].Steps) == 0 {
			t.Fatalf("%s: %+v", verdict, found)
		}
		for _, step := range found[0].Steps {
			if step.Command != "kubectl describe pvc -n team-a" || !strings.HasSuffix(step.Message.String(), ": "+step.Command) {
				t.Errorf("%s: %+v", verdict, step)
			}
		}
	}
}
