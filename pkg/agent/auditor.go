package agent

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"g8s.host/gpu-scheduler/pkg/agent/audit"
	"g8s.host/gpu-scheduler/pkg/agent/binding"
)

// auditInterval is the interval at which kubelet's data is compared with the records.
const auditInterval = 10 * time.Second

// lister lists the slots that kubelet reports for pods.
type lister interface {
	List(ctx context.Context, pods []types.NamespacedName, resources []string) ([]audit.Listed, error)
}

// auditor reports differences between kubelet and the agent's records. It changes nothing: the records are authoritative.
type auditor struct {
	starter *Starter
	kubelet lister
	events  record.EventRecorder
	metrics *Metrics
	log     *slog.Logger

	// before is what differed in the last comparison, told what was already reported.
	before, reported []audit.Difference
}

func (a *auditor) runLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditInterval):
		}
		if err := a.auditOnce(ctx); err != nil && ctx.Err() == nil {
			a.log.Info("Comparing kubelet's word with the records", "error", err)
		}
	}
}

// auditOnce compares once. Data that it could not read keeps its previous value.
func (a *auditor) auditOnce(ctx context.Context) error {
	view, _ := a.starter.GPUs.CurrentView()
	situation, err := a.starter.gatherSituation(ctx)
	if err != nil {
		return err
	}
	listed, err := a.kubelet.List(ctx, podsWithDevices(situation), view.Resources())
	if err != nil {
		return err
	}
	now := audit.FindDifferences(&audit.Situation{
		Listed: listed, Claims: situation.Claims, Records: situation.Records, Pods: situation.Pods, Live: situation.Live,
	})
	again := audit.RepeatedDifferences(a.before, now)
	a.before = now
	a.metrics.setDifferences(again)
	a.metrics.audits.Inc()
	for i := range again {
		if len(audit.RepeatedDifferences(a.reported, again[i:i+1])) == 0 {
			a.reportDifference(&again[i])
		}
	}
	a.reported = again
	return nil
}

// podsWithDevices returns the pods that hold or are assigned devices: by the scheduler, by kubelet's checkpoint or by the records.
func podsWithDevices(s *binding.Situation) []types.NamespacedName {
	held := map[types.UID]bool{}
	for i := range s.Claims {
		held[s.Claims[i].Pod] = true
	}
	for i := range s.Records {
		held[s.Records[i].Pod] = true
	}
	var pods []types.NamespacedName
	for uid, pod := range s.Pods {
		if held[uid] || pod.Assignment != "" {
			pods = append(pods, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	return pods
}

func (a *auditor) reportDifference(d *audit.Difference) {
	a.log.Error("Kubelet and the records differ", "kind", d.Kind, "pod", d.Namespace+"/"+d.Name, "text", d.Text)
	pod := &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: d.Namespace, Name: d.Name, UID: d.Pod}
	a.events.Event(pod, corev1.EventTypeWarning, "GPURecordDiffers", d.Text)
}
