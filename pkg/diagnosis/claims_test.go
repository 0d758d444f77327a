package diagnosis

import (
	"strings"
	"testing"
)

// TestAdviceOnClaimsNamesTheirNamespace: who follows it stands in another one.
func TestAdviceOnClaimsNamesTheirNamespace(t *testing.T) {
	for _, verdict := range []string{
		"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
		"0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.",
	} {
		found := onClaims(verdict, "team-a")
		if len(found) != 1 || len(found[0].Steps) == 0 {
			t.Fatalf("%s: %+v", verdict, found)
		}
		for _, step := range found[0].Steps {
			if step.Command != "kubectl describe pvc -n team-a" || !strings.HasSuffix(step.Text, ": "+step.Command) {
				t.Errorf("%s: %+v", verdict, step)
			}
		}
	}
	if again := findings("pod has unbound immediate PersistentVolumeClaims", claimRules); again[0].Steps[0].Command != describeClaims {
		t.Errorf("the rule itself has changed: %+v", again[0])
	}
}
