package integration

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// reloadLimit is how long a change of the policy may take.
var reloadLimit = bounds.Of(2 * time.Second)

// lease is what the scheduler's events on its policy are about.
var lease = corev1.ObjectReference{Kind: "Lease", Namespace: metav1.NamespaceSystem, Name: names.SchedulerName}

const policyHeader = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\n"

// TestScoringPolicyChangesWhilePodsFlow changes the file under the scheduler that runs. One node is half full: Pack
// prefers it, Spread the other.
func TestScoringPolicyChangesWhilePodsFlow(t *testing.T) {
	e := newEnv(t)
	before, err := os.ReadFile(cluster.PolicyPath())
	if err != nil {
		t.Fatal(err)
	}
	defer e.writePolicy(string(before))
	e.createNodes(
		fixture.Node("half").Pool("reload").GPUs(8, "A100-80G").Obj(),
		fixture.Node("idle").Pool("reload").GPUs(8, "A100-80G").Obj())
	e.createPods(fixture.Pod("filler").GPUs(4).Pool("reload").Select(corev1.LabelHostname, "half").Obj())
	e.waitBound("filler")
	probes := &probes{env: e}

	probes.mustGoTo("half", time.Now())
	e.writePolicy(policyHeader + "strategy: Spread\n")
	probes.mustGoTo("idle", time.Now().Add(reloadLimit))
	e.writePolicy(policyHeader + "weights: {utilization: 100, typeMatch: 0, topology: 0}\n")
	probes.mustGoTo("half", time.Now().Add(reloadLimit))
	e.writePolicy(policyHeader + "strategy: Spread\n")
	probes.mustGoTo("idle", time.Now().Add(reloadLimit))

	mistakes := map[string]string{
		"weights: {topology: 140}\n": "weights.topology: Invalid value: 140",
		"strategie: Pack\n":          `unknown field "strategie"`,
	}
	for mistake, message := range mistakes {
		e.writePolicy(policyHeader + mistake)
		e.waitEvent(lease, "ScoringPolicyRefused", message)
		probes.mustGoTo("idle", time.Now())
	}
	metrics := scrape(t)
	if refused, _ := sum(metrics, "gpu_scheduler_policy_reload_total", "result", "refused"); refused != 2 {
		t.Errorf("%v policies are counted as refused, want 2", refused)
	}
	if good, ok := sum(metrics, "gpu_scheduler_policy_last_reload_successful", "", ""); good != 0 || !ok {
		t.Errorf("after a mistake the last reload counts as successful: %v, there: %v", good, ok)
	}

	e.writePolicy(policyHeader + "strategy: Pack\n")
	probes.mustGoTo("half", time.Now().Add(reloadLimit))
	e.waitEvent(lease, "ScoringPolicyInEffect", cluster.PolicyPath())
	if good, _ := sum(scrape(t), "gpu_scheduler_policy_last_reload_successful", "", ""); good != 1 {
		t.Error("after the mistake is mended the last reload does not count as successful")
	}
}

// writePolicy replaces the policy at once, as the kubelet does.
func (e *env) writePolicy(content string) {
	e.Helper()
	next := cluster.PolicyPath() + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		e.Fatal(err)
	}
	if err := os.Rename(next, cluster.PolicyPath()); err != nil {
		e.Fatal(err)
	}
}

// probes are pods of one GPU that are taken away when it is known where they went.
type probes struct {
	*env
	count int
}

// mustGoTo keeps probing until some probes in a row went to the node. Those that come after the deadline must.
func (p *probes) mustGoTo(node string, deadline time.Time) {
	p.Helper()
	for inRow := 0; inRow < 5; inRow++ {
		late := !time.Now().Before(deadline)
		got := p.probe()
		if got == node {
			continue
		}
		if late {
			p.Fatalf("probe %d went to %s, want %s", p.count, got, node)
		}
		inRow = -1
	}
}

// probe returns the node that a pod of one GPU goes to.
func (p *probes) probe() string {
	p.Helper()
	p.count++
	name := fmt.Sprintf("probe-%d", p.count)
	p.createPods(fixture.Pod(name).GPUs(1).Pool("reload").Obj())
	node := p.waitBound(name)
	p.deletePod(name)
	return node
}
