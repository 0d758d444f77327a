package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/oracle"
)

const (
	patience = bounds.Patience
	// second is what Kubernetes writes times with: what the recorder saw just after one is written as before.
	second = time.Second
	// late is how much later than it happened something may be seen on a busy machine.
	late = time.Second
)

// submitted creates a job of one pod, as gpuctl does.
func submitted(t *testing.T, namespace, name string, kind workload.Kind, gpus int) {
	t.Helper()
	text := fmt.Sprintf("kind: %s\njob: {name: %s}\nenvironment: {image: busybox}\nresources:\n  pool: %s\n  gpu: %d\n  memory: 1Gi\n", kind, name, pool, gpus)
	docs, diagnostics := workload.Parse(name, []byte(text))
	if len(diagnostics) > 0 {
		t.Fatalf("%v in\n%s", diagnostics, text)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Create(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
}

func newNamespace(t *testing.T, prefix string) string {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// bound are the pods of a namespace that have a node and have not ended.
func bound(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return gpu.HasEnded(&pod) || pod.DeletionTimestamp != nil })
}

// finish has kubelet say that a pod's container ended now.
func finish(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase, code int32) {
	t.Helper()
	status := map[string]any{"phase": phase, "containerStatuses": []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: "busybox", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, FinishedAt: metav1.Now()}},
	}}}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// ended counts the pods that were ended.
var ended atomic.Int64

// end ends a pod in one of the ways in which pods end, of which each has its turn.
func end(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods, now := client.CoreV1().Pods(pod.Namespace), int64(0)
	var err error
	switch ended.Add(1) % 4 {
	case 0:
		finish(t, pod, corev1.PodSucceeded, 0)
	case 1:
		finish(t, pod, corev1.PodFailed, 3)
	case 2:
		err = pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{})
	case 3:
		err = pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// TestTheLedgerIsTheHistory ends pods in every way while the ledger and the leading scheduler are killed.
func TestTheLedgerIsTheHistory(t *testing.T) {
	recorder, err := oracle.Watch(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	namespace, data := newNamespace(t, "chaos-"), t.TempDir()
	scheduler, err := cluster.StartScheduler(t.Context(), sandbox.SchedulerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start := func() *sandbox.Ledger {
		t.Helper()
		l, err := cluster.StartLedger(t.Context(), sandbox.LedgerOptions{Args: []string{"--data-dir=" + data}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	written := start()
	for round := range *kills {
		for i := range 12 {
			kind := workload.KindTraining
			if i%2 == 0 {
				kind = workload.KindNotebook // its pods come again when they are deleted, and go without having ended
			}
			submitted(t, namespace, fmt.Sprintf("j-%d-%d", round, i), kind, 1+rand.IntN(4))
		}
		eventually(t, "pods to run", func() bool { return len(bound(t, namespace)) >= 6 })
		if err := written.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := scheduler.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, pod := range bound(t, namespace)[:3] {
			end(t, &pod) // while nobody writes it down
		}
		if scheduler, err = cluster.StartScheduler(t.Context(), sandbox.SchedulerOptions{}); err != nil {
			t.Fatal(err)
		}
		written = start()
		for _, pod := range bound(t, namespace)[:3] {
			end(t, &pod)
		}
	}
	err = client.AppsV1().Deployments(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "room for all", func() bool {
		pods := bound(t, namespace)
		for i := range pods {
			end(t, &pods[i])
		}
		waiting, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Pending"})
		return err == nil && len(pods) == 0 && len(waiting.Items) == 0
	})
	if err := scheduler.Stop(); err != nil { // first, as Jobs make pods again that have failed
		t.Fatal(err)
	}
	time.Sleep(2 * second) // the last is written down
	if err := written.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	history, err := recorder.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, history, filepath.Join(data, "ledger.db"), namespace)
}

// truth is what happened to a pod, by the history.
type truth struct {
	pod         *corev1.Pod
	bound, over time.Time // as they were seen
	terminal    bool      // it ended before it was deleted
}

func truths(history oracle.History, namespace string) map[string]*truth {
	out := map[string]*truth{}
	for i := range history {
		pod := history[i].Pod
		if pod == nil || pod.Namespace != namespace || pod.Spec.NodeName == "" {
			continue
		}
		seen := out[string(pod.UID)]
		if seen == nil {
			seen = &truth{bound: history[i].Seen}
			out[string(pod.UID)] = seen
		}
		seen.pod = pod
		gone := history[i].Type == watch.Deleted
		if seen.over.IsZero() && (gone || gpu.HasEnded(pod)) {
			seen.over, seen.terminal = history[i].Seen, gpu.HasEnded(pod)
		}
	}
	return out
}

// compare holds every holding against the history, and every pod of the history against the ledger.
func compare(t *testing.T, history oracle.History, file, namespace string) {
	t.Helper()
	want := truths(history, namespace)
	s, err := store.Open(file, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	seen, uncertain, deleted := 0, 0, 0
	var widest time.Duration
	err = s.EachHolding(func(h *ledger.Holding) error {
		if h.Namespace != namespace {
			return nil
		}
		seen++
		is := want[h.UID]
		if is == nil {
			t.Errorf("%s is there twice, or never was: %+v", h.Pod, h)
			return nil
		}
		delete(want, h.UID)
		if !is.terminal {
			deleted++
		}
		if !h.Until.IsZero() {
			uncertain++
			widest = max(widest, h.Until.Sub(h.To))
		}
		judge(t, h, is)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range want {
		t.Errorf("%s is missing, which held from %v to %v", missing.pod.Name, missing.bound, missing.over)
	}
	usage, err := s.Usage(store.UsageQuery{By: []ledger.Key{ledger.ByUser}, From: time.Unix(0, 0), To: time.Now(), Most: 9})
	if err != nil || len(usage.Gaps) > 0 {
		t.Errorf("gaps %v, error %v: the API server kept it all", usage.Gaps, err)
	}
	t.Logf("%d holdings, %d of pods that were deleted while they ran; the end of %d is known to within %s", seen, deleted, uncertain, widest)
	if seen == 0 || deleted == 0 {
		t.Error("nothing was shown")
	}
}

func judge(t *testing.T, h *ledger.Holding, is *truth) {
	t.Helper()
	if early, after := is.bound.Sub(h.From) < -late, is.bound.Sub(h.From) > second+late; early || after {
		t.Errorf("%s held from %v, and was bound at %v", h.Pod, h.From, is.bound)
	}
	last := h.To
	if !h.Until.IsZero() {
		last = h.Until
	}
	if is.over.Before(h.To.Add(-late)) || is.over.After(last.Add(second+late)) || is.over.IsZero() != h.To.IsZero() {
		t.Errorf("%s held until %v, at the latest %v, and ended at %v (terminal %t)", h.Pod, h.To, last, is.over, is.terminal)
	}
	if is.terminal && !h.Until.IsZero() {
		t.Errorf("%s said when it ended, and the ledger does not know", h.Pod)
	}
	var assigned struct {
		Containers map[string][]struct{ UUID string }
	}
	if err := json.Unmarshal([]byte(is.pod.Annotations[names.AnnotationGPUDevices]), &assigned); err != nil {
		t.Errorf("%s: %v", h.Pod, err)
	}
	var cards, held []string
	for _, devices := range assigned.Containers {
		for _, device := range devices {
			cards = append(cards, device.UUID)
		}
	}
	for _, card := range h.GPUs {
		held = append(held, card.UUID)
	}
	slices.Sort(cards)
	slices.Sort(held)
	if !slices.Equal(cards, held) || h.Milli != int64(len(cards))*1000 {
		t.Errorf("%s held %v (%d milli), and was given %v", h.Pod, held, h.Milli, cards)
	}
	if h.Job == "" || h.JobUID == "" || h.Pool != pool || h.GPUType != gpuType || h.Node != is.pod.Spec.NodeName {
		t.Errorf("whose it was is not known: %+v", h)
	}
}
