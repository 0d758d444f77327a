package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/agent"
	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/test/bounds"
)

// start runs an agent on a node of its own, with the cards of a file. It returns the file.
func start(t *testing.T, node, runtimeVersion, config string, changes ...func(*agent.Options)) string {
	t.Helper()
	if err := makeNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "cards.yaml")
	rewrite(t, path, config)
	library, err := fake.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	options := &agent.Options{
		NodeName: node, KubeletDir: filepath.Join(dir, "kubelet"), CDIDir: filepath.Join(dir, "cdi"),
		RuntimeEndpoint: startRuntime(t, runtimeVersion), Library: library, SlotsPerGPU: 4, Unassigned: binding.Refuse,
		HealthyAfter: time.Second, Log: slog.New(slog.DiscardHandler),
	}
	for _, change := range changes {
		change(options)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	credentials := onNode(t, node)
	go func() { done <- agent.Run(ctx, credentials, options) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	return path
}

func rewrite(t *testing.T, path, config string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// await waits until the node is as wanted, and returns how long it took.
func await(t *testing.T, name, what string, want func(*corev1.Node) bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for time.Since(begin) < patience {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want(node) {
			return time.Since(begin)
		}
		time.Sleep(20 * time.Millisecond)
	}
	node, _ := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	t.Fatalf("waited in vain for %s; the node has labels %v, annotations %v, conditions %v", what, node.Labels, node.Annotations, node.Status.Conditions)
	return 0
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return &corev1.NodeCondition{}
}

// TestTheNodeSaysWhatItHas from the agent's start on, in the form that the scheduler reads, and only what nobody had said.
func TestTheNodeSaysWhatItHas(t *testing.T) {
	start(t, "full", "2.2.7", "count: 4\nmemoryMiB: 81920\nproduct: NVIDIA A100-SXM4-80GB\nnvlinks: 12\n")
	await(t, "full", "the inventory", func(node *corev1.Node) bool {
		inventory, err := gpu.ParseInventory(node.Annotations[names.AnnotationInventory])
		return err == nil && len(inventory.GPUs) == 4 && inventory.GPUs[3].UUID == fake.UUID(3) && len(inventory.Links) == 1 &&
			condition(node, names.ConditionAgentReady).Status == corev1.ConditionTrue &&
			condition(node, names.ConditionGPUsHealthy).Status == corev1.ConditionTrue &&
			condition(node, corev1.NodeReady).Status == corev1.ConditionTrue
	})
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "full", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		names.LabelGPUType: "A100-80G", names.LabelNVIDIAMemory: "81920", names.LabelNVIDIACount: "4", names.LabelInterconnect: "nvlink",
	} {
		if node.Labels[label] != want {
			t.Errorf("label %s is %q, want %q", label, node.Labels[label], want)
		}
	}
}

// TestABadCardIsOut within two seconds, comes back when it has been well for as long as it must, and what a person wrote stays.
func TestABadCardIsOut(t *testing.T) {
	path := start(t, "sick", "2.2.7", "count: 2\n")
	health := func(want string) func(*corev1.Node) bool {
		return func(node *corev1.Node) bool {
			inventory, err := gpu.ParseInventory(node.Annotations[names.AnnotationInventory])
			return err == nil && len(inventory.GPUs) == 2 && inventory.GPUs[1].Health == want && inventory.GPUs[0].Health == gpu.Healthy
		}
	}
	await(t, "sick", "two healthy cards", health(gpu.Healthy))
	patch := []byte(`{"metadata":{"labels":{"g8s.host/gpu-type":"MINE"}}}`)
	if _, err := admin.CoreV1().Nodes().Patch(t.Context(), "sick", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	rewrite(t, path, "count: 2\ncards: [{index: 1, lost: true}]\n")
	took := await(t, "sick", "a card that is lost", health("Lost"))
	t.Logf("a lost card was out after %s", took.Round(time.Millisecond))
	checkSoon(t, took)
	await(t, "sick", "the condition", func(node *corev1.Node) bool {
		c := condition(node, names.ConditionGPUsHealthy)
		return c.Status == corev1.ConditionFalse && c.Reason == "Lost" && strings.Contains(c.Message, fake.UUID(1))
	})
	rewrite(t, path, "count: 2\n")
	await(t, "sick", "the card to be back", health(gpu.Healthy))
	rewrite(t, path, "count: 2\nevents: [{id: a, uuid: "+fake.UUID(1)+", xid: 31}, {id: b, uuid: "+fake.UUID(1)+", xid: 79}]\n")
	took = await(t, "sick", "a card with XID 79", health("Xid79"))
	t.Logf("a card with XID 79 was out after %s", took.Round(time.Millisecond))
	checkSoon(t, took)
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "sick", metav1.GetOptions{})
	if err != nil || node.Labels[names.LabelGPUType] != "MINE" {
		t.Errorf("the label that a person wrote is %q, and the error is %v", node.Labels[names.LabelGPUType], err)
	}
}

// TestANodeThatIsToHaveNoAgent any more is taken back what an agent said of it, when that ends: the scheduler would go by it still. An agent
// that only starts again leaves all as it is.
func TestANodeThatIsToHaveNoAgent(t *testing.T) {
	told := func(node *corev1.Node) bool {
		return node.Annotations[names.AnnotationInventory] != "" && condition(node, names.ConditionAgentReady).Status == corev1.ConditionTrue
	}
	label := func(node, value string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"g8s.host/gpu-agent":` + value + `}}}`)
		if _, err := admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		node         string
		label, final string
		stays        bool
	}{
		"the label is there":      {node: "again", label: `"true"`, final: `"true"`, stays: true},
		"the label is taken away": {node: "left", label: `"true"`, final: "null"},
		"there never was a label": {node: "unlabelled", label: "null", final: "null", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("while it runs", func(t *testing.T) {
				start(t, tc.node, "2.2.7", "count: 2\ncards: [{index: 1, lost: true}]\n")
				label(tc.node, tc.label)
				await(t, tc.node, "the inventory", told)
				time.Sleep(time.Second) // the agent sees the label
				label(tc.node, tc.final)
			})
			node, err := admin.CoreV1().Nodes().Get(t.Context(), tc.node, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.stays {
				if !told(node) || condition(node, names.ConditionGPUsHealthy).Reason != "Lost" {
					t.Errorf("annotations %v, conditions %v, want them as the agent left them", node.Annotations, node.Status.Conditions)
				}
				return
			}
			ready, health := condition(node, names.ConditionAgentReady), condition(node, names.ConditionGPUsHealthy)
			if ready.Status != corev1.ConditionFalse || ready.Reason != names.ReasonNoAgent || health.Status != corev1.ConditionUnknown {
				t.Errorf("conditions %+v and %+v, want that there is no agent", ready, health)
			}
			if text, there := node.Annotations[names.AnnotationInventory]; there {
				t.Errorf("the inventory is %s still", text)
			}
		})
	}
}

// TestAnAgentThatIsPaused by NVIDIA's operator closes its node when it ends, and keeps what it said of the cards.
func TestAnAgentThatIsPaused(t *testing.T) {
	const node = "paused"
	label := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"g8s.host/gpu-agent":"true","nvidia.com/gpu.deploy.client":"` + value + `"}}}`)
		if _, err := admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("while it runs", func(t *testing.T) {
		start(t, node, "2.2.7", "count: 2\n")
		label("true")
		await(t, node, "the agent to serve", func(node *corev1.Node) bool {
			return node.Annotations[names.AnnotationInventory] != "" && condition(node, names.ConditionAgentReady).Reason == names.ReasonServing
		})
		time.Sleep(time.Second) // the agent sees the label
		label("paused-for-driver-upgrade")
	})
	after, err := admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := condition(after, names.ConditionAgentReady)
	if ready.Status != corev1.ConditionFalse || ready.Reason != names.ReasonPaused || nodestate.AgentClosure(after) == nil || after.Annotations[names.AnnotationInventory] == "" {
		t.Errorf("condition %+v, inventory %q", ready, after.Annotations[names.AnnotationInventory])
	}
}

// TestAnAgentThatReports tells of the cards, also beside a runtime that could give them to no container, and offers kubelet nothing.
func TestAnAgentThatReports(t *testing.T) {
	var folder string
	start(t, "reporting", "1.6.20", "count: 2\ncards: [{index: 1, lost: true}]\n", func(o *agent.Options) {
		o.Mode, folder = agent.Report, filepath.Join(o.KubeletDir, "device-plugins")
	})
	await(t, "reporting", "the cards", func(node *corev1.Node) bool {
		inventory, err := gpu.ParseInventory(node.Annotations[names.AnnotationInventory])
		return err == nil && len(inventory.GPUs) == 2 && inventory.GPUs[1].Health == "Lost" &&
			condition(node, names.ConditionAgentReady).Reason == names.ReasonReporting && condition(node, names.ConditionGPUsHealthy).Reason == "Lost"
	})
	if sockets, err := os.ReadDir(folder); err != nil || len(sockets) > 0 {
		t.Errorf("kubelet's folder has %v (%v), want nothing of the agent", sockets, err)
	}
}

// checkSoon holds the agent to 2 s.
func checkSoon(t *testing.T, took time.Duration) {
	t.Helper()
	if limit := bounds.Of(2 * time.Second); took > limit {
		t.Errorf("it took %s, want at most %s", took, limit)
	}
}

// TestARuntimeThatIgnoresDevices: the node says why nothing is offered.
func TestARuntimeThatIgnoresDevices(t *testing.T) {
	start(t, "old", "1.6.20", "count: 2\n")
	await(t, "old", "the condition", func(node *corev1.Node) bool {
		c := condition(node, names.ConditionAgentReady)
		return c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "containerd 1.6.20")
	})
}

// TestWhatAnAgentMayNot: a token of a node that was taken over is of no use elsewhere, and moves the node to no pool.
func TestWhatAnAgentMayNot(t *testing.T) {
	for _, name := range []string{"own", "other"} {
		if err := makeNode(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	label := []byte(`{"metadata":{"labels":{"rack":"7"},"annotations":{"a":"b"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`)
	if _, err := admin.CoreV1().Nodes().Patch(t.Context(), "own", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(onNode(t, "own"))
	if err != nil {
		t.Fatal(err)
	}
	without, err := kubernetes.NewForConfig(asAgent(cluster.RESTConfig()))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		client kubernetes.Interface
		node   string
		patch  string
		kind   types.PatchType
		status bool
		want   string
	}{
		"its inventory":               {node: "own", patch: `{"metadata":{"annotations":{"g8s.host/gpu-inventory":"{}"}}}`},
		"its slices":                  {node: "own", patch: `{"metadata":{"annotations":{"g8s.host/gpu-slices":"{}"}}}`},
		"what its cloud says":         {node: "own", patch: `{"metadata":{"annotations":{"g8s.host/interruption":"2026-11-24T18:00:00Z"}}}`},
		"what its cloud says no more": {node: "own", patch: `{"metadata":{"annotations":{"g8s.host/interruption":null}}}`},
		"a finalizer":                 {node: "own", patch: `{"metadata":{"finalizers":["a.b/c"]}}`, want: "who is to be asked"},
		"an owner": {node: "own", want: "belongs to",
			patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"none","uid":"3f3c7a56-0000-0000-0000-000000000000"}]}}`},
		"where its kubelet is":        {node: "own", status: true, patch: `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}`, want: "nothing else"},
		"the volumes of its machine":  {node: "own", status: true, patch: `{"status":{"volumesAttached":[{"name":"a","devicePath":"b"}]}}`, want: "nothing else"},
		"the slices of another":       {node: "other", patch: `{"metadata":{"annotations":{"g8s.host/gpu-slices":"{}"}}}`, want: "the node alone that it runs on"},
		"the inventory of another":    {node: "other", patch: `{"metadata":{"annotations":{"g8s.host/gpu-inventory":"{}"}}}`, want: "the node alone that it runs on"},
		"an inventory without a node": {client: without, node: "own", patch: `{"metadata":{"annotations":{"g8s.host/gpu-inventory":"{}"}}}`, want: "the node alone that it runs on"},
		"a type where there is none":  {node: "own", patch: `{"metadata":{"labels":{"g8s.host/gpu-type":"A"}}}`},
		"a type that is there":        {node: "own", patch: `{"metadata":{"labels":{"g8s.host/gpu-type":"B"}}}`, want: "change and remove none"},
		"a pool":                      {node: "own", patch: `{"metadata":{"labels":{"g8s.host/pool":"gold"}}}`, want: "an agent may add the labels"},
		"a label removed":             {node: "own", patch: `{"metadata":{"labels":{"rack":null}}}`, want: "change and remove none"},
		"another annotation":          {node: "own", patch: `{"metadata":{"annotations":{"c":"d"}}}`, want: "no other"},
		"another annotation removed":  {node: "own", patch: `{"metadata":{"annotations":{"a":null}}}`, want: "no other"},
		"a taint removed":             {node: "own", patch: `{"spec":{"taints":null}}`, want: "spec"},
		"its conditions": {node: "own", status: true, kind: types.StrategicMergePatchType,
			patch: `{"status":{"conditions":[{"type":"GPUsHealthy","status":"True"}]}}`},
		"the condition of kubelet": {node: "own", status: true, kind: types.StrategicMergePatchType,
			patch: `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, want: "nothing else"},
		"cards that kubelet counts": {node: "own", status: true, patch: `{"status":{"allocatable":{"nvidia.com/gpu":"99"}}}`, want: "nothing else"},
		"conditions of another": {node: "other", status: true, kind: types.StrategicMergePatchType,
			patch: `{"status":{"conditions":[{"type":"GPUsHealthy","status":"True"}]}}`, want: "the node alone"},
	} {
		t.Run(name, func(t *testing.T) {
			who, kind := tc.client, tc.kind
			if who == nil {
				who = client
			}
			if kind == "" {
				kind = types.MergePatchType
			}
			var subresources []string
			if tc.status {
				subresources = []string{"status"}
			}
			if name == "a type that is there" { // whatever the order of the cases
				_, err := admin.CoreV1().Nodes().Patch(t.Context(), "own", types.MergePatchType, []byte(`{"metadata":{"labels":{"g8s.host/gpu-type":"A"}}}`), metav1.PatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
			_, err := who.CoreV1().Nodes().Patch(t.Context(), tc.node, kind, []byte(tc.patch), metav1.PatchOptions{}, subresources...)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	checkEvents(t, client)
	if err := client.CoreV1().Nodes().Delete(t.Context(), "own", metav1.DeleteOptions{}); err == nil {
		t.Error("an agent may delete its node")
	}
	if _, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("an agent may read secrets")
	}
}

func changed(event *corev1.Event, change func(*corev1.Event)) *corev1.Event {
	change(event)
	return event
}

// checkEvents tries what an agent of node own may tell in events.
func checkEvents(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	event := func(component, host, kind string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "e-", Namespace: metav1.NamespaceDefault}, Reason: "GPUShareExceeded",
			Source:         corev1.EventSource{Component: component, Host: host},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: metav1.NamespaceDefault, Name: "p"},
		}
	}
	for name, tc := range map[string]struct {
		event *corev1.Event
		may   bool
	}{
		"of its own":                    {event("gpu-agent", "own", "Pod"), true},
		"of another node":               {event("gpu-agent", "other", "Pod"), false},
		"of kubelet":                    {event("kubelet", "own", "Pod"), false},
		"about another kind":            {event("gpu-agent", "own", "Job"), false},
		"that reports as the scheduler": {changed(event("gpu-agent", "own", "Pod"), func(e *corev1.Event) { e.ReportingController = names.SchedulerName }), false},
		"that reports as itself": {changed(event("gpu-agent", "own", "Pod"), func(e *corev1.Event) {
			e.ReportingController, e.ReportingInstance = "gpu-agent", "own"
		}), true},
		"that reports as another node's": {changed(event("gpu-agent", "own", "Pod"), func(e *corev1.Event) { e.ReportingInstance = "other" }), false},
		"in the scheduler's words":       {changed(event("gpu-agent", "own", "Pod"), func(e *corev1.Event) { e.Reason = "FailedScheduling" }), false},
		"of an eviction": {changed(event("gpu-agent", "own", "Pod"), func(e *corev1.Event) {
			e.Reason, e.Related = "Preempted", &corev1.ObjectReference{Kind: "Pod", Namespace: "other", Name: "victim"}
		}), false},
		"that names another pod beside": {changed(event("gpu-agent", "own", "Pod"), func(e *corev1.Event) {
			e.Related = &corev1.ObjectReference{Kind: "Pod", Namespace: "other", Name: "victim"}
		}), false},
	} {
		if _, err := client.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), tc.event, metav1.CreateOptions{}); (err == nil) != tc.may {
			t.Errorf("an event %s: error %v", name, err)
		}
	}
	foreign, err := admin.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), event("kubelet", "own", "Pod"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"source":{"component":"gpu-agent","host":"own"},"message":"all is well"}`)
	if _, err := client.CoreV1().Events(metav1.NamespaceDefault).Patch(t.Context(), foreign.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
		t.Error("an agent may change what kubelet told")
	}
}
