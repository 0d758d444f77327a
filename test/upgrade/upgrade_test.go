package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/oracle"
)

// The jobs that run from before the upgrade until after it.
const (
	steadyOne  = "steady-one"
	steadyGang = "steady-gang"
)

// halfPlaced is how long a gang may have a part of its members on nodes and wait for the others.
var halfPlaced = bounds.Of(10 * time.Second)

// handedOver is how long pods may wait for the next leader, when one is told to end or is killed (docs/failover.md).
func handedOver() time.Duration {
	if *kill {
		return bounds.Of(5 * time.Second)
	}
	return bounds.Of(3 * time.Second)
}

// upgrade is one cluster on its way from one release to another.
type upgrade struct {
	*testing.T
	old, new release
	load     *load
	caller   *caller
	steady   map[string]types.UID

	scheduler, controller, server *rollout
	// ledger has no pods where the old release has none.
	ledger *rollout
}

// TestUpgradeUnderLoad takes the steps of docs/upgrade.md, and with another release those back.
func TestUpgradeUnderLoad(t *testing.T) {
	bounds.SkipInShort(t)
	u := &upgrade{
		T:          t,
		scheduler:  &rollout{namespace: metav1.NamespaceSystem, name: names.SchedulerName},
		controller: &rollout{namespace: metav1.NamespaceSystem, name: sandbox.ControllerName},
		server:     &rollout{namespace: sandbox.ServerNamespace, name: sandbox.ServerName},
		ledger:     &rollout{namespace: metav1.NamespaceSystem, name: sandbox.LedgerName, volume: "ledger", folder: t.TempDir()},
	}
	u.old, u.new = releases()
	u.begin()
	u.forward()
	if *oldFolder != "" {
		u.back()
	}
	u.load.close()
	u.judge()
}

func (u *upgrade) rollouts() []*rollout {
	return []*rollout{u.scheduler, u.controller, u.server, u.ledger}
}

// begin makes a cluster of the old release with jobs that run.
func (u *upgrade) begin() {
	u.Cleanup(func() {
		for _, r := range u.rollouts() {
			r.stop(u.T)
		}
	})
	u.old.apply(u.T)
	makeCertificate(u.T, sandbox.ServerNamespace, sandbox.ServerName)
	makeCertificate(u.T, metav1.NamespaceSystem, sandbox.LedgerName)
	for _, r := range []*rollout{u.scheduler, u.controller, u.server} {
		for range replicas {
			r.start(u.T, u.old)
		}
	}
	if u.old.hasLedger() {
		u.ledger.start(u.T, u.old)
	}
	u.makeObject("gpupools", fmt.Sprintf(
		`{"apiVersion":"g8s.host/v1alpha1","kind":"GPUPool","metadata":{"name":%q},"spec":{"constraints":{"gpuTypes":["A100-80G"]}}}`, pool))
	u.load = newLoad(u.T, u.old)
	u.caller = newCaller(u.T, u.load.namespace)
	for name, members := range map[string]int{steadyOne: 1, steadyGang: 2} {
		text := fmt.Sprintf("kind: training\njob: {name: %s}\nenvironment: {image: busybox, command: [train]}\nresources: {gpu: 4, memory: 8Gi, pool: %s, nodes: %d}\n", name, pool, members)
		if out, err := u.old.gpuctl(u.Context(), cluster.Kubeconfig(), text, "create", "-f", "-", "--wait", "-n", u.load.namespace); err != nil {
			u.Fatal(err, out)
		}
	}
	u.steady = u.steadyPods()
	u.look("the old release")
}

// forward is the way of docs/upgrade.md.
func (u *upgrade) forward() {
	u.step("the new manifests, with the old programs", func() { u.new.apply(u.T) })
	u.load.by(u.old, u.new)
	u.step("the new scheduler", func() { u.scheduler.roll(u.T, u.new, u.load.goOn) })
	u.step("the new controller", func() { u.controller.roll(u.T, u.new, u.load.goOn) })
	u.step("the new server", func() { u.server.roll(u.T, u.new, func() { u.caller.browse(u.T, u.server) }) })
	if u.old.hasLedger() {
		u.step("the new ledger", func() { u.ledger.replace(u.T, u.new) })
	}
	for _, r := range u.rollouts() {
		r.judgeLogs(u.T, u.new, refused)
	}
	// What an older release may not know: it keeps nobody of this namespace from anything.
	u.makeObject("gpureservations", fmt.Sprintf(`{"apiVersion":"g8s.host/v1alpha1","kind":"GPUReservation","metadata":{"name":"of-the-new-release"},
		"spec":{"pool":%q,"from":"2020-01-01T00:00:00Z","to":"2100-01-01T00:00:00Z","namespaces":[%q]}}`, pool, u.load.namespace))
}

// back is the same way: what was new stays where the old manifests do not have it.
func (u *upgrade) back() {
	u.step("the old manifests, with the new programs", func() { u.old.apply(u.T) })
	u.step("the old server", func() { u.server.roll(u.T, u.old, func() { u.caller.browse(u.T, u.server) }) })
	u.step("the old controller", func() { u.controller.roll(u.T, u.old, u.load.goOn) })
	u.step("the old scheduler", func() { u.scheduler.roll(u.T, u.old, u.load.goOn) })
	u.load.by(u.old)
	u.load.goOn()
}

// step does something while the load goes on, and looks at the cluster afterwards with both gpuctls.
func (u *upgrade) step(what string, do func()) {
	u.Helper()
	begin, jobs := time.Now(), u.load.count()
	do()
	u.load.goOn()
	u.Logf("%s: %.1f s, %d jobs came", what, time.Since(begin).Seconds(), u.load.count()-jobs)
	u.look(what)
}

// look holds what is to stay as it is against what it was, and has users ask.
func (u *upgrade) look(when string) {
	u.Helper()
	if diff := cmp.Diff(u.steady, u.steadyPods()); diff != "" {
		u.Errorf("%s: pods that ran on (-before +now):\n%s", when, diff)
	}
	out, err := cluster.RunKubectl(u.Context(), "get", "gpupools.g8s.host", pool, "-o", "jsonpath={.spec}")
	if want := `{"constraints":{"gpuTypes":["A100-80G"]}}`; err != nil || string(out) != want {
		u.Errorf("%s: the GPUPool says %s, %v, want %s", when, out, err, want)
	}
	for _, of := range []release{u.old, u.new} {
		u.caller.ask(u.T, of, u.scheduler, u.ledger)
	}
	u.caller.browse(u.T, u.server)
}

// makeObject makes one of our kinds.
func (u *upgrade) makeObject(resource, text string) {
	u.Helper()
	create := client.CoreV1().RESTClient().Post().AbsPath("/apis/g8s.host/v1alpha1/"+resource).SetHeader("Content-Type", "application/json").Body([]byte(text))
	if err := create.Do(u.Context()).Error(); err != nil {
		u.Fatal(err)
	}
}

// steadyPods are the pods that are to run on, by name.
func (u *upgrade) steadyPods() map[string]types.UID {
	u.Helper()
	list, err := client.CoreV1().Pods(u.load.namespace).List(u.Context(), metav1.ListOptions{
		LabelSelector: names.LabelJob + " in (" + steadyOne + "," + steadyGang + ")", FieldSelector: "status.phase=" + string(corev1.PodRunning),
	})
	if err != nil {
		u.Fatal(err)
	}
	found := map[string]types.UID{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].UID
	}
	return found
}

// judge holds the history against the promises.
func (u *upgrade) judge() {
	ctx, cancel := context.WithTimeout(u.Context(), bounds.Patience)
	defer cancel()
	history, err := u.load.recorder.Stop(ctx)
	if err != nil {
		u.Fatal(err)
	}
	for _, violation := range append(oracle.Check(history), oracle.Doubled(history)...) {
		u.Error(violation)
	}
	members, evicted, cancelled := map[string]int{}, 0, 0
	for _, j := range u.load.jobs {
		if j.members > 1 {
			members[u.load.namespace+"/"+j.name] = j.members
		}
		if j.evicted {
			evicted++
		}
		if j.cancel {
			cancelled++
		}
	}
	members[u.load.namespace+"/"+steadyGang] = 2
	u.judgeGangs(oracle.Tears(history, members), len(members))
	u.judgeHandovers(history.Bindings())
	for _, r := range u.rollouts() {
		r.judgeLogs(u.T, u.old, broken)
		r.judgeLogs(u.T, u.new, broken)
	}
	select {
	case err := <-cluster.Err():
		u.Errorf("a program ended by itself: %v", err)
	default:
	}
	u.Logf("%d jobs, %d gangs among them, %d cancelled, %d evicted; %d bindings; %d revisions; %d creations were to be sent again",
		len(u.load.jobs), len(members), cancelled, evicted, len(history.Bindings()), len(history), u.load.notReady)
}

func (u *upgrade) judgeGangs(tears []oracle.Tear, gangs int) {
	if len(tears) == 0 {
		u.Error("no gang was half placed for a moment, so nothing shows that any was looked at")
		return
	}
	for _, tear := range tears {
		if tear.Lasted > halfPlaced {
			u.Errorf("%s, want at most %s", tear, halfPlaced)
		}
	}
	u.Logf("%d gangs, %d times half placed, the longest: %s", gangs, len(tears), tears[0])
}

// judgeHandovers demands that pods were bound soon after a leader had been told to end.
func (u *upgrade) judgeHandovers(bindings []oracle.Binding) {
	var waits []string
	for i, ended := range u.scheduler.ended {
		until := time.Now()
		if i+1 < len(u.scheduler.ended) {
			until = u.scheduler.ended[i+1]
		}
		wait, led := handover(bindings, ended, until)
		if !led {
			continue
		}
		waits = append(waits, fmt.Sprintf("%.2f", wait.Seconds()))
		if wait > handedOver() {
			u.Errorf("the next leader bound its first pod %s after the end of the one before, want at most %s", wait, handedOver())
		}
	}
	if len(waits) == 0 {
		u.Error("no leader ended, so nothing shows that another one led")
	}
	u.Logf("from the end of a leader to the next one's first binding, seconds: %s", strings.Join(waits, " "))
}

// handover is how long after the end of a scheduler the next leadership bound a pod, and false if it did not lead.
func handover(bindings []oracle.Binding, ended, until time.Time) (time.Duration, bool) {
	epoch := ""
	for _, b := range bindings {
		switch {
		case b.Seen.Before(ended):
			epoch = b.Epoch
		case b.Seen.Before(until) && b.Epoch != epoch:
			return b.Seen.Sub(ended), true
		}
	}
	return 0, false
}
