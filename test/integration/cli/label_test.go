package cli

import (
	"strings"
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestLabelNode(t *testing.T) {
	s := newSession(t)
	first, second := s.namespace+"-1", s.namespace+"-2"
	s.node(first, nil)
	s.node(second, map[string]string{names.LabelRack: "r1"})
	s.expect(3, "not found", "", "label", "node", first, "nowhere", "rack=r2")
	s.expect(4, "--overwrite", "", "label", "node", first, second, "rack=r2")
	if got := s.label(first, names.LabelRack); got != "" {
		t.Errorf("%s is in rack %q, though the other node has a rack", first, got)
	}
	s.expect(0, "", "", "label", "node", first, second, "rack=r2", "--overwrite")
	if got := s.label(second, names.LabelRack); got != "r2" {
		t.Errorf("%s is in rack %q, want r2", second, got)
	}
	s.expect(0, "", "", "label", first, "rack=r2") // it has it already
	s.expect(2, "--allow-any-key", "", "label", "node", first, "g8s.hots/pool=b")
	s.expect(2, `did you mean "accelerator"?`, "", "label", "node", first, "acelerator=b")
	s.expect(0, "", "", "label", "node", first, "example.com/a=b")
	s.expect(2, "", "", "label", "node", first, "rack=a b")

	got := s.expect(0, "", "", "get", "label", first, "--no-headers")
	if want := first + "  g8s.host/rack  r2\n"; got.stdout != want {
		t.Errorf("stdout is %q, want %q", got.stdout, want)
	}
	if got := s.expect(0, "", "", "get", "labels", first, "--all", "-o", "name"); !strings.Contains(got.stdout, "/example.com/a=b\n") {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(0, "", "", "label", "node", "rack-", first)
	s.expect(3, "label g8s.host/rack of node", "", "get", "label", first, "--key", "rack")
	s.expect(3, `node "nowhere"`, "", "get", "labels", "nowhere")
	if got := s.expect(0, "", "", "label", "node", second, "rack", "--delete"); got.stdout != "node/"+second+" label removed: g8s.host/rack=r2\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.expect(0, "", "", "label", "node", second, "rack", "--delete"); got.stdout != "node/"+second+" has no label g8s.host/rack\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.label(second, names.LabelRack); got != "" {
		t.Errorf("%s is in rack %q, want none", second, got)
	}
}

// TestALabelIsWrittenAsItIsGiven has a key that others read and the scheduler does not, as the node has ours.
func TestALabelIsWrittenAsItIsGiven(t *testing.T) {
	s := newSession(t)
	node := s.namespace + "-1"
	s.node(node, map[string]string{names.LabelGPUType: "A100-80G"})
	s.expect(0, "which is read instead of accelerator", "", "label", "node", node, "accelerator=nvidia-tesla-v100")
	if got := s.label(node, "accelerator") + " " + s.label(node, names.LabelGPUType); got != "nvidia-tesla-v100 A100-80G" {
		t.Errorf("the labels are %q", got)
	}
	s.expect(0, "pool is read as g8s.host/pool", "", "label", "node", node, "pool=p")
	if got := s.expect(0, "", "", "label", "node", node, "team=x", "--json"); got.stderr != "" {
		t.Errorf("stderr is %q", got.stderr)
	}
	if got := s.label(node, "team"); got != "x" {
		t.Errorf("label team is %q, want x", got)
	}
}

func TestAddAndRemoveNodes(t *testing.T) {
	s := newSession(t)
	first, second := s.namespace+"-1", s.namespace+"-2"
	pool, other := "p-"+s.namespace, "o-"+s.namespace
	s.node(first, nil)
	s.node(second, map[string]string{names.LabelPool: other})
	s.expect(4, "--force", "", "add", "node", first, second, "--pool", pool, "-y")
	if got := s.label(first, names.LabelPool); got != "" {
		t.Errorf("%s is in pool %q, though the other node is taken", first, got)
	}
	s.expect(0, "", "", "add", "node", first, second, "--pool", pool, "--force", "-y")
	s.expect(4, `is in pool "`+pool+`"`, "", "remove", "node", first, "--pool", other)
	s.expect(3, "nowhere", "", "remove", "node", first, "nowhere", "--pool", pool)
	if got := s.label(first, names.LabelPool); got != pool {
		t.Errorf("%s is in pool %q, want %s", first, got, pool)
	}
	s.expect(0, "", "", "remove", "node", first, "--pool", pool)
	if got := s.label(first, names.LabelPool) + s.label(second, names.LabelPool); got != pool {
		t.Errorf("the pools of both nodes are %q, want that of the second only", got)
	}
	s.expect(2, "--pool", "", "add", "node", first)
	s.expect(2, "names of nodes", "", "remove", "node", "--pool", pool)
	s.expect(2, "in no other", "", "add", "node", first, "--pool", names.DefaultPool)
	s.expect(2, "the pool is", "", "add", "node", first, "--pool", "A100 80G")
}

func TestJobsAreNamedThatRunOnANodeThatIsTakenOutOfItsPool(t *testing.T) {
	s := newSession(t)
	s.node("somewhere", map[string]string{names.LabelPool: "o-" + s.namespace})
	s.expect(0, "", training("sft"), "create", "-f", "-")
	s.runningPod(s.job("sft"))
	s.expect(0, s.namespace+"/sft (somewhere)", "", "add", "node", "somewhere", "--pool", "p-"+s.namespace, "--force", "-y")
	s.expect(0, s.namespace+"/sft (somewhere)", "", "remove", "node", "somewhere", "--pool", "p-"+s.namespace)
}
