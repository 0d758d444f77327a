package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// TestTheAuditSeesARecordThatIsGone: nothing differs while all is well, by kubelet's own word, and what does is told.
func TestTheAuditSeesARecordThatIsGone(t *testing.T) {
	needTime(t)
	const name = "audited"
	pod := shape{parts: []part{{cards: 2}}}.pod(name)
	pod.Spec.SchedulerName = "by-hand"
	started(t, pod, choice(4, 5))
	eventually(t, "the agent to tell which devices the pod has", func(context.Context) bool {
		var has []string
		for _, metric := range measured(t, "gpu_agent_pod_device_info") {
			if labelOf(metric, "pod") == name {
				has = append(has, labelOf(metric, "UUID"))
			}
		}
		slices.Sort(has)
		return slices.Equal(has, []string{uuid(4), uuid(5)})
	})
	awaitAudits(t)
	if count := differences(t); count != 0 {
		t.Errorf("%v differences before anything was done", count)
	}

	records, err := filepath.Glob(bed.HostPath(filepath.Join(strings.TrimPrefix(realnode.CDIDir, "/var"), "g8s.host-gpu-*.json")))
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, path := range records {
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), uuid(4)) {
			err = os.Remove(path)
			removed++
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if removed != 1 {
		t.Fatalf("%d of the node's %d records are of the pod, want one", removed, len(records))
	}
	eventually(t, "an event on the pod", func(ctx context.Context) bool {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=GPURecordDiffers,involvedObject.name=" + name})
		return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "no record says which") })
	})
	if count := differences(t); count != 1 {
		t.Errorf("%v differences, want one", count)
	}
}

// differences is what kubelet and the agent's records do not agree on, by the agent's last audit.
func differences(t *testing.T) float64 {
	t.Helper()
	families, err := scrape(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sumOf(families["gpu_agent_record_differences"])
}

func sumOf(family *dto.MetricFamily) (sum float64) {
	for _, metric := range family.GetMetric() {
		sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
	}
	return sum
}

// wholeAudits is how many more audits have to end until two have begun since: what differs is counted when it did at two looks.
const wholeAudits = 3

// awaitAudits waits until the agent has looked twice at what is there now.
func awaitAudits(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wholeAudits*patience)
	defer cancel()
	before := auditsOf(t)
	for auditsOf(t) < before+wholeAudits {
		if ctx.Err() != nil {
			t.Fatalf("the agent has not audited its records %d times within %s", wholeAudits, wholeAudits*patience)
		}
		sleep(ctx, time.Second)
	}
}

func auditsOf(t *testing.T) float64 {
	t.Helper()
	families, err := scrape(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sumOf(families["gpu_agent_audits_total"])
}

// auditsSeen is what the agent's audits found while something went on.
type auditsSeen struct {
	// count is how many there were, and worst the most differences of one.
	count, worst float64
	failure      error
}

// watchAudits notes what the audits find until it is told to stop. They are 10 s apart.
func watchAudits(ctx context.Context) (stop func() auditsSeen) {
	ctx, cancel := context.WithCancel(ctx)
	var seen auditsSeen
	over := make(chan struct{})
	go func() {
		defer close(over)
		first := -1.0
		for ; ctx.Err() == nil; sleep(ctx, 2*time.Second) {
			families, err := scrape(ctx)
			if err != nil {
				if ctx.Err() == nil {
					seen.failure = err
				}
				continue
			}
			audits := sumOf(families["gpu_agent_audits_total"])
			if first < 0 {
				first = audits
			}
			seen.count, seen.worst = audits-first, max(seen.worst, sumOf(families["gpu_agent_record_differences"]))
		}
	}()
	return func() auditsSeen { cancel(); <-over; return seen }
}
