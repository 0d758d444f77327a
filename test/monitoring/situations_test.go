package monitoring

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
)

// env is one test on the world.
type env struct {
	*world
	*testing.T
	rogue *sandbox.Process
}

// situation is what makes an alert fire.
type situation struct {
	alert, what string
	begin       func(*env)
	// end makes all well again, where that is not deleting the pods of the situation.
	end func(*env)
}

// situations are in an order in which none makes another's alert fire before its time.
var situations = []situation{
	{"GPUPodsPendingLong", "a pod asks for more than is free", func(e *env) { e.pod("full", "too-large", 8) }, nil},
	{"GPUPoolFull", "a pool is full, and a pod waits", func(e *env) { e.pod("full", "rest", 4); e.pod("full", "more", 1) }, nil},
	{"GPUPoolIdle", "the pods of a pool go", func(e *env) { e.remove("idle-0") }, func(e *env) { e.pod("idle", "idle-0", 6) }},
	{"GPUPoolFragmented", "a small pod runs on each of two nodes", func(e *env) { e.podOn("frag-02", "small", 1) }, nil},
	{"GPUGangStuck", "a gang asks for more nodes than there are", func(e *env) { e.gang("large", 3, 3) }, nil},
	{"GPUGangTorn", "a member is lost, and has no room any more", func(e *env) {
		e.gang("torn", 2, 1)
		e.eventually("the gang to run", func() bool { return e.node("torn-0") != "" && e.node("torn-1") != "" })
		lost := e.node("torn-1")
		e.remove("torn-1")
		e.podOn(lost, "in-the-way", 8)
		e.eventually("the place to be taken", func() bool { return e.node("in-the-way") != "" })
		e.member("torn", "torn-1", 8)
	}, nil},
	{"GPUPodsOfOtherSchedulers", "a pod with a GPU names its node", func(e *env) { e.byHand("sick-02", 1) }, nil},
	{"GPUsPromisedTwice", "a pod names a node that is full", func(e *env) { e.byHand("sick-01", 8) }, nil},
	{"GPUNodeUnhealthy", "a node is not ready", func(e *env) { e.ready("sick-02", corev1.ConditionFalse) }, func(e *env) { e.ready("sick-02", corev1.ConditionTrue) }},
	{"GPUCardUnhealthy", "an agent finds a card broken", func(e *env) {
		cards := fixture.Cards("sick-02", 81920, 81920, 81920, 81920, 81920, 81920, 81920, 81920).Unhealthy(0).Annotation(e.T)
		e.annotate("sick-02", strconv.Quote(cards))
	}, func(e *env) { e.annotate("sick-02", "null") }},
	{"GPUPodsRejected", "a kubelet rejects a job's pod", func(e *env) { e.apply("rejected", rejectedJob); e.reject("rejected") }, func(e *env) { e.kubectl("delete", "job", "rejected", "--wait=false") }},
	{"GPUUtilizationLow", "no card does anything", func(e *env) { e.cards.Store(idleCard) }, func(e *env) { e.cards.Store(busyCard) }},
	{"GPUsHeldIdle", "a card that a pod holds does nothing", func(e *env) { e.cards.Store(idleCard) }, func(e *env) { e.cards.Store(busyCard) }},
	{"GPUSpotCapacityMissing", "the cloud has fewer machines than the minimum", func(e *env) { e.apply("spot", soldOut) }, func(e *env) { e.kubectl("delete", "spotpool", "sold-out", "--wait=false") }},
	{"GPUSpotCloudSilent", "the cloud cannot be reached", func(e *env) { e.apply("silent", silentCloud) }, func(e *env) { e.kubectl("delete", "spotpool", "silent", "--wait=false") }},
	{"GPUSpotMachinesDoNotJoin", "a machine takes longer than it may", func(e *env) { e.apply("unjoined", unjoined) }, func(e *env) { e.kubectl("delete", "spotpool", "unjoined", "--wait=false") }},
	{"GPUChannelDead", "a job ends whose channel leads to nobody", func(e *env) { e.apply("dead", deadChannel(time.Now())) }, nil},
	{"GPUScoringPolicyRefused", "the scoring policy has a mistake", func(e *env) { e.policy("strategy: Nonsense") }, func(e *env) { e.policy("strategy: Pack") }},
	{"GPUSchedulingLatencyHigh", "each attempt takes 300 ms", func(e *env) { e.slowly("late") }, func(e *env) { e.slow.Store(false) }},
	{"GPUSchedulingAttemptsSlow", "each attempt takes 300 ms", func(e *env) { e.slowly("slow") }, func(e *env) { e.slow.Store(false) }},
	{"GPUSchedulerFenceRefuses", "a second scheduler runs without leader election", func(e *env) { e.startRogue() }, func(e *env) { e.endRogue() }},
	{"GPULedgerBehind", "the ledger starts, and may not list pods any more", func(e *env) { e.blindLedger() }, nil},
	{"GPUComponentDown", "the ledger ends", func(e *env) { e.stop(e.ledger.Process) }, nil},
	{"GPUSchedulerNoLeader", "the scheduler ends", func(e *env) { e.stop(e.scheduler) }, nil},
}

const (
	soldOut = `{apiVersion: g8s.host/v1alpha1, kind: SpotPool, metadata: {name: sold-out}, spec: {pool: sold-out, gpuType: A100-80G,
  minimum: 9, maximum: 9, provider: {name: Simulated}, template: {instanceTypes: [big], zones: [{name: a}], gpus: 8,
  simulated: {cpu: "64", memory: 512Gi, bootSeconds: 1, machinesPerZone: 1}}}}`
	unjoined = `{apiVersion: g8s.host/v1alpha1, kind: SpotPool, metadata: {name: unjoined}, spec: {pool: unjoined, minimum: 1, maximum: 1,
  joinSeconds: 30, provider: {name: Simulated}, template: {instanceTypes: [big], zones: [{name: a}], gpus: 8,
  simulated: {cpu: "64", memory: 512Gi, bootSeconds: 50}}}}`
	rejectedJob = `{apiVersion: batch/v1, kind: Job, metadata: {name: rejected, namespace: default}, spec: {backoffLimit: 0, template: {spec: {
  restartPolicy: Never, schedulerName: gpu-scheduler, nodeSelector: {g8s.host/pool: sick}, containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}}`
	silentCloud = `{apiVersion: g8s.host/v1alpha1, kind: SpotPool, metadata: {name: silent}, spec: {pool: silent, minimum: 1, maximum: 1,
  provider: {name: TencentCloud, region: r, credentialsSecret: {name: none}},
  template: {instanceTypes: [x], zones: [{name: a, subnet: s}], gpus: 1, image: img-1, network: vpc-1}}}`
)

// create makes a pod of a situation, which is deleted when that ends.
func (e *env) create(pod *corev1.Pod) {
	e.Helper()
	if _, err := e.client.CoreV1().Pods(metav1.NamespaceDefault).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		_ = e.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(context.Background(), pod.Name, metav1.DeleteOptions{}) // it may be gone
	})
}

func (e *env) pod(pool, name string, gpus int64) {
	e.create(fixture.Pod(name).Pool(pool).GPUs(gpus).Obj())
}

func (e *env) podOn(node, name string, gpus int64) {
	pod := fixture.Pod(name).GPUs(gpus).Select(corev1.LabelHostname, node).Obj()
	pod.Spec.NodeSelector[names.LabelPool] = node[:4] // a pod without a pool is of the default one
	e.create(pod)
}

// byHand puts a pod on a node past all schedulers.
func (e *env) byHand(node string, gpus int64) {
	pod := fixture.Pod("by-hand-" + node).GPUs(gpus).Obj()
	pod.Spec.NodeName, pod.Spec.SchedulerName = node, ""
	e.create(pod)
}

func (e *env) member(gang, name string, gpus int64) {
	e.create(fixture.Pod(name).Pool("gang").GPUs(gpus).Label(names.LabelPodGroup, gang).Obj())
}

// gang creates members of 8 GPUs each, of which so many start together.
func (e *env) gang(name string, members, least int) {
	e.apply(name, fmt.Sprintf("{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: {minMember: %d}}", name, max(members, least)))
	for i := range members {
		e.member(name, fmt.Sprintf("%s-%d", name, i), 8)
	}
}

// deadChannel is a job that has ended, and whose channel leads to an address that is not called.
func deadChannel(now time.Time) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: List, items: [
{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: kube-system}, data: {channels.dead: "*"}},
{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: kube-system}, stringData: {dead: "https://127.0.0.1/"}},
{apiVersion: batch/v1, kind: Job, metadata: {name: told, namespace: default, labels: {%s: told, %s: training}, annotations: {
%s: dead, %s: cancelled, %s: %q}}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: i}]}}}}]}`,
		names.PolicyConfigMap, names.ChannelSecret, names.LabelJob, names.LabelJobType, names.AnnotationNotify, names.AnnotationNotifyOn,
		names.AnnotationCancelledAt, now.UTC().Format(time.RFC3339))
}

func (e *env) remove(name string) {
	e.Helper()
	zero := int64(0)
	if err := e.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(e.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		e.Fatal(err)
	}
}

// node is that of a pod, "" while it has none.
func (e *env) node(name string) string {
	pod, err := e.client.CoreV1().Pods(metav1.NamespaceDefault).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return pod.Spec.NodeName
}

func (e *env) kubectl(args ...string) {
	e.Helper()
	if _, err := e.cluster.RunKubectl(context.WithoutCancel(e.Context()), args...); err != nil {
		e.Error(err)
	}
}

func (e *env) apply(name, text string) {
	e.Helper()
	file := filepath.Join(e.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	e.kubectl("apply", "--server-side", "-f", file)
}

func (e *env) ready(node string, status corev1.ConditionStatus) {
	e.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test"}]}}`, status)
	_, err := e.client.CoreV1().Nodes().Patch(context.WithoutCancel(e.Context()), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		e.Error(err)
	}
}

// reject says of a job's pod what a kubelet says whose device plugin has ended.
func (e *env) reject(job string) {
	e.Helper()
	e.eventually("the pod to have a node", func() bool {
		pods, err := e.client.CoreV1().Pods(metav1.NamespaceDefault).List(e.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job})
		if err != nil || len(pods.Items) == 0 || pods.Items[0].Spec.NodeName == "" {
			return false
		}
		e.kubectl("patch", "pod", pods.Items[0].Name, "--subresource=status", "-p", `{"status":{"phase":"Failed","reason":"UnexpectedAdmissionError",
			"message":"Pod was rejected: Allocate failed due to cannot allocate unregistered device nvidia.com/gpu, which is unexpected"}}`)
		return true
	})
}

func (e *env) annotate(node, value string) {
	e.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, names.AnnotationInventory, value)
	_, err := e.client.CoreV1().Nodes().Patch(context.WithoutCancel(e.Context()), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.Error(err)
	}
}

func (e *env) policy(line string) {
	e.Helper()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\n" + line + "\n"
	if err := os.WriteFile(e.cluster.PolicyPath(), []byte(text), 0o600); err != nil {
		e.Error(err)
	}
}

// slowly places pods with an extender that takes its time.
func (e *env) slowly(name string) {
	e.slow.Store(true)
	for i := range 12 {
		e.pod("sick", fmt.Sprintf("%s-%d", name, i), 0)
	}
}

func (e *env) stop(process *sandbox.Process) {
	e.Helper()
	if err := process.Stop(); err != nil {
		e.Error(err)
	}
}

// startRogue starts a scheduler that binds and has never led, with pods of its own, so that no other one is faster.
func (e *env) startRogue() {
	e.Helper()
	config, err := os.ReadFile(e.config)
	if err != nil {
		e.Fatal(err)
	}
	file := filepath.Join(e.TempDir(), "rogue.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(config), "schedulerName: gpu-scheduler", "schedulerName: rogue", 1)), 0o600); err != nil {
		e.Fatal(err)
	}
	e.rogue, err = e.cluster.StartScheduler(e.Context(), sandbox.SchedulerOptions{Name: "rogue", ConfigPath: file, Args: []string{"--leader-elect=false"}})
	if err != nil {
		e.Fatal(err)
	}
	e.prometheus.target("gpu-scheduler", e.rogue.Port())
	time.Sleep(2 * time.Second) // a counter that begins above 0 has not increased: it is to be read once before
	pod := fixture.Pod("rogue").Pool("sick").GPUs(1).Obj()
	pod.Spec.SchedulerName = "rogue"
	e.create(pod)
}

// endRogue ends it, and has Prometheus forget it: what is not to be there is not down.
func (e *env) endRogue() {
	e.Helper()
	e.stop(e.rogue)
	if err := os.Remove(e.prometheus.targetFile("gpu-scheduler", e.rogue.Port())); err != nil {
		e.Error(err)
	}
}

// blindLedger takes the ledger's right to list pods, and starts it again.
func (e *env) blindLedger() {
	e.Helper()
	e.kubectl("patch", "clusterrole", "g8s:gpu-ledger", "--type=json", `-p=[{"op":"replace","path":"/rules/0/resources","value":["nodes"]}]`)
	e.stop(e.ledger.Process)
	ledger, err := e.cluster.StartLedger(e.Context(), sandbox.LedgerOptions{Port: e.ledger.Port()})
	if err != nil {
		e.Fatal(err)
	}
	e.ledger = ledger
}
