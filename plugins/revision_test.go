package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestAnAttemptKnowsWhatItsSnapshotHolds feeds cache and queue as the scheduler's event handlers do.
func TestAnAttemptKnowsWhatItsSnapshotHolds(t *testing.T) {
	var attempts cycle.Attempts
	c := newCluster(t, gpuNode("n", "pcie"))
	plugins.Wrap(c.scheduler, plugins.Options{Attempts: &attempts})
	logger, cache, queue := klog.Background(), c.scheduler.Cache, c.scheduler.SchedulingQueue
	version := func(name, node, version string) *corev1.Pod {
		return pod(name, "1", "1").Node(node).ResourceVersion(version).Obj()
	}
	for _, step := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"nothing has happened", func() error { return nil }, ""},
		{"a pod got a node", func() error { return cache.AddPod(logger, version("a", "n", "9")) }, "9"},
		{"it changed there", func() error { return cache.UpdatePod(logger, version("a", "n", "9"), version("a", "n", "10")) }, "10"},
		{"it left", func() error { return cache.RemovePod(logger, version("a", "n", "11")) }, "11"},
		{"a pod came", func() error { upstream.Add(queue, version("b", "", "12")); return nil }, "12"},
		{"it was nominated", func() error { upstream.Update(queue, version("b", "", "12"), version("b", "", "13")); return nil }, "13"},
		{"it left without a node", func() error { upstream.Delete(queue, version("b", "", "14")); return nil }, "14"},
		{"a pod left during a broken watch", func() error { upstream.Delete(queue, version("c", "", "3")); return nil }, "14"},
	} {
		before := attempts.Seen.Version()
		if err := step.change(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := attempts.Seen.Version(); got != before {
			t.Errorf("%s: %q is seen before the next snapshot, want %q", step.name, got, before)
		}
		if _, _, err := c.attempt(version("next", "", "1")); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := attempts.Seen.Version(); got != step.want {
			t.Errorf("%s: %q is seen, want %q", step.name, got, step.want)
		}
	}
}
