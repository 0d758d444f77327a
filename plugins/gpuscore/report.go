package gpuscore

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Events about a policy file.
const (
	actionReload    = "ReloadScoringPolicy"
	reasonInEffect  = "ScoringPolicyInEffect"
	reasonRefused   = "ScoringPolicyRefused"
	maxNote         = 1024 // what the API server takes
	shortenedSuffix = "..."
)

// schedulersLease is the subject of the events: the object that stands for the scheduler, whichever replica leads, and that leader election
// events refer to as well. The digest makes each version of the file a separate subject: events on one subject are aggregated into a series that
// only keeps the first message.
func schedulersLease(digest string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: coordinationv1.SchemeGroupVersion.String(),
		Kind:       "Lease",
		Namespace:  metav1.NamespaceSystem,
		Name:       names.SchedulerName,
		FieldPath:  "policyFile{" + digest + "}",
	}
}

// reporter reports reloads in the log, in metrics and in events. Every replica reports, because each reads its own mount.
type reporter struct {
	recorder events.EventRecorder // nil where there is no API server
	profile  string
}

func newReporter(handle fwk.Handle) *reporter {
	r := &reporter{recorder: handle.EventRecorder(), profile: handle.ProfileName()}
	startReloadMetrics(r.profile)
	return r
}

func (r *reporter) reportReload(ctx context.Context, o reloadOutcome) {
	countReload(r.profile, o)
	logger := klog.FromContext(ctx).WithValues("path", o.path, "digest", o.digest, "generation", o.generation)
	if o.err != nil {
		logger.Error(o.err, "Scoring policy refused, the one before stays in effect")
		r.emitEvent(o, corev1.EventTypeWarning, reasonRefused,
			fmt.Sprintf("%s is refused, the policy before it stays in effect: %v", o.path, o.err))
		return
	}
	logger.Info("Scoring policy in effect")
	r.emitEvent(o, corev1.EventTypeNormal, reasonInEffect,
		fmt.Sprintf("%s is in effect as generation %d of this process", o.path, o.generation))
}

func (r *reporter) emitEvent(o reloadOutcome, kind, reason, note string) {
	if r.recorder == nil {
		return
	}
	if len(note) > maxNote {
		note = note[:maxNote-len(shortenedSuffix)] + shortenedSuffix
	}
	r.recorder.Eventf(schedulersLease(o.digest), nil, kind, reason, actionReload, "%s", note)
}
