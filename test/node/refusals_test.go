package node

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// TestAPodWithoutAChoiceDoesNotStart binds pods as schedulers do that choose no cards, or choose badly.
func TestAPodWithoutAChoiceDoesNotStart(t *testing.T) {
	needNode(t)
	holder := shape{parts: []part{{cards: 1}}}.pod("holder")
	holder.Spec.SchedulerName = "by-hand"
	started(t, holder, choice(3))
	tests := map[string]struct {
		cards gpu.Assignment
		want  string // in what kubelet says about the container
	}{
		"no cards are chosen":            {nil, "g8s.host/gpu-devices"},
		"too many are chosen":            {choice(0, 1), "2"},
		"a card is chosen that is not":   {choice(77), uuid(77)},
		"another container is chosen":    {gpu.Assignment{"other": {{UUID: uuid(1), Index: 1}}}, partName(0)},
		"a card of another pod is taken": {choice(3), "holder"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the agent waits for a card that is taken for most of the time that kubelet gives it
			podName := "refused-" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "a-card", "card")
			pod := shape{parts: []part{{cards: 1}}}.pod(podName)
			pod.Spec.SchedulerName = "by-hand"
			if err := create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := remove(context.WithoutCancel(t.Context()), podName, false); err != nil {
					t.Error(err)
				}
			})
			if err := bind(t.Context(), podName, tc.cards); err != nil {
				t.Fatal(err)
			}
			said := ""
			took := eventually(t, "kubelet to say why the container does not start", func(ctx context.Context) bool {
				now, err := client.CoreV1().Pods(namespace).Get(ctx, podName, metav1.GetOptions{})
				if err != nil || len(now.Status.ContainerStatuses) == 0 {
					return false
				}
				waiting := now.Status.ContainerStatuses[0].State.Waiting
				if waiting != nil && waiting.Message != "" {
					said = waiting.Reason + ": " + waiting.Message
				}
				return said != ""
			})
			t.Logf("after %s: %s", took.Round(10*time.Millisecond), said)
			if !strings.Contains(said, tc.want) {
				t.Errorf("want %q in it", tc.want)
			}
			if got, err := inside.of(reportName(podName, partName(0))); err != nil || len(got) > 0 {
				t.Errorf("the container has started: %+v, error %v", got, err)
			}
		})
	}
}

// TestAPodStartsOnceItsCardIsFree deletes a pod by force, so that it is gone for the cluster and its card is given again while
// its container runs on: for the two seconds after which kubelet kills what does not end. The new pod waits for that, by
// itself.
func TestAPodStartsOnceItsCardIsFree(t *testing.T) {
	needNode(t)
	old := shape{parts: []part{{cards: 1}}, linger: time.Minute}.pod("free-old")
	old.Spec.SchedulerName = "by-hand"
	started(t, old, choice(5))
	began := time.Now()
	if err := remove(t.Context(), "free-old", true); err != nil {
		t.Fatal(err)
	}
	next := shape{parts: []part{{cards: 1}}}.pod("free-next")
	next.Spec.SchedulerName = "by-hand"
	started(t, next, choice(5)) // fails when it sees that another still has the card
	took := time.Since(began).Round(100 * time.Millisecond)
	t.Logf("it started %s after the old pod was told to end", took)
	if took < 2*time.Second {
		t.Error("the old container runs for two seconds yet, so the new one cannot have waited for it")
	}
}

// choice is the choice of some cards for a pod of one container.
func choice(indices ...int) gpu.Assignment {
	var devices []gpu.Device
	for _, index := range indices {
		devices = append(devices, gpu.Device{UUID: uuid(index), Index: index})
	}
	return gpu.Assignment{partName(0): devices}
}

// started creates a pod, binds it, and returns when its container has said from inside that it has what was chosen.
func started(t *testing.T, pod *corev1.Pod, cards gpu.Assignment) {
	t.Helper()
	if err := create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(t.Context()), pod.Name, false); err != nil {
			t.Error(err)
		}
	})
	if err := bind(t.Context(), pod.Name, cards); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := inside.await(ctx, reportName(pod.Name, partName(0)), 1)
	if err != nil {
		t.Fatal(err, why(pod.Name))
	}
	for _, fault := range wrong(cards, partName(0), got[0]) {
		t.Errorf("%s: %s", pod.Name, fault)
	}
}
