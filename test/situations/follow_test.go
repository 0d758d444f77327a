package situations

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// outcome is what became of a step of the advice.
type outcome string

const (
	// mends: the step was carried out, and its cause is gone.
	mends outcome = "mends"
	// inVain: it was carried out, and its cause is still there.
	inVain outcome = "in vain"
	// byOthers: time, the owner's own knowledge or people outside of the cluster carry it out.
	byOthers outcome = "by others"
)

// TestEachStepOfTheAdviceIsTaken carries out each step of the advice of each situation, one at a time. None is refused, and of each cause the best step
// mends it.
func TestEachStepOfTheAdviceIsTaken(t *testing.T) {
	all := AllSituations()
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) {
			for _, finding := range diagnosis.Diagnose(all[i].World().Facts()).Findings {
				for j := range finding.Steps {
					got, err := followStep(&all[i], finding.Cause, &finding.Steps[j])
					switch {
					case err != nil:
						t.Errorf("%s: %q is refused: %v", finding.Cause, finding.Advice[j], err)
					case j == 0 && got == inVain:
						t.Errorf("%s: %q is in vain", finding.Cause, finding.Advice[j])
					}
				}
			}
		})
	}
}

// followStep carries out a step in a new world of the situation. An error says why our own programs refuse it.
func followStep(s *Situation, cause reason.Cause, step *diagnosis.Step) (outcome, error) {
	w := s.World()
	change, known := carriedOut[step.Action]
	if !known {
		return byOthers, nil
	}
	done, err := change(w, step)
	if err != nil || !done {
		return byOthers, err
	}
	w.verdict = "" // the scheduler has not looked since
	if hasCause(w, cause) {
		return inVain, nil
	}
	return mends, nil
}

func hasCause(w *World, cause reason.Cause) bool {
	report := diagnosis.Diagnose(w.Facts())
	return slices.Contains(causesOf(&report), cause)
}

// carriedOut are the actions that can be carried out in a world. Each reports whether it has changed anything, and an error where our own programs would
// refuse it.
var carriedOut = map[reason.Action]func(*World, *diagnosis.Step) (bool, error){
	reason.Wait:        waitForHolders,
	reason.SetField:    setField,
	reason.Move:        func(w *World, step *diagnosis.Step) (bool, error) { return w.moveTo(step.Value) },
	reason.SetPriority: func(w *World, step *diagnosis.Step) (bool, error) { return w.setPriority(step.Value) },
	reason.Resume:      func(w *World, _ *diagnosis.Step) (bool, error) { return w.resumeJob() },
	reason.Retry:       retryJob,
	reason.Cancel:      func(w *World, _ *diagnosis.Step) (bool, error) { return false, w.refuseEnded("cancel") },
	reason.Uncordon:    uncordon,
	reason.RaiseQuota:  raiseQuota,
	reason.RaiseLimit: func(w *World, _ *diagnosis.Step) (bool, error) {
		w.space.LimitRanges, w.events = nil, nil
		return true, nil
	},
	reason.CreateObject: func(w *World, step *diagnosis.Step) (bool, error) {
		if step.Kind != reason.KindClaim {
			return false, nil
		}
		w.space.Claims = []corev1.PersistentVolumeClaim{{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}}
		w.space.Claims[0].Name, w.space.Claims[0].Namespace = step.Name, namespace
		return true, nil
	},
	reason.StartScheduler: func(w *World, _ *diagnosis.Step) (bool, error) {
		w.cluster.Lease = leaseRenewed(Noon)
		return true, nil
	},
	reason.StartControllers: func(w *World, _ *diagnosis.Step) (bool, error) {
		w.unmade, w.status.StartTime = false, ptr.To(w.meta.CreationTimestamp)
		return true, nil
	},
}

// refuseEnded refuses what only a job takes that has not ended.
func (w *World) refuseEnded(verb string) error {
	if job := w.Job(); slices.Contains([]inventory.Status{inventory.StatusFailed, inventory.StatusSucceeded, inventory.StatusCancelled}, job.Status) {
		return fmt.Errorf("%s: the job has ended: %s", verb, job.Status)
	}
	return nil
}

// waitForHolders ends the pods that a step waits for.
func waitForHolders(w *World, step *diagnosis.Step) (bool, error) {
	if len(step.Holders) == 0 {
		return false, nil
	}
	before := len(w.holders)
	w.holders = slices.DeleteFunc(w.holders, func(pod corev1.Pod) bool {
		return slices.ContainsFunc(step.Holders, func(h diagnosis.Holder) bool {
			return h.Namespace == pod.Namespace && (h.Job == pod.Labels[names.LabelJob] || h.Pod == pod.Name)
		})
	})
	if len(w.holders) == before {
		return false, fmt.Errorf("nobody is called as those who are to end: %+v", step.Holders)
	}
	return true, nil
}

// setField writes a field of the job's YAML, and applies it.
func setField(w *World, step *diagnosis.Step) (bool, error) {
	if err := w.refuseEnded("edit"); err != nil {
		return false, err
	}
	kind := w.meta.Labels[names.LabelJobType]
	if _, found, _, err := workload.Lookup(kind + "." + step.Field); err != nil || found.Path == "" {
		return false, fmt.Errorf("a %s has no field %s: %w", kind, step.Field, err)
	}
	if step.Value == "" {
		return false, nil // its owner knows what
	}
	switch step.Field {
	case reason.FieldPool:
		return w.moveTo(step.Value)
	case reason.FieldType:
		w.template.Spec.NodeSelector[names.LabelGPUType] = step.Value
	case reason.FieldGPU:
		w.askGPUs(step.Value)
	case reason.FieldCPU:
		w.setResource(corev1.ResourceCPU, step.Value)
		w.events = nil
	case reason.FieldMemory:
		w.setResource(corev1.ResourceMemory, step.Value)
	case reason.FieldTolerations:
		key, _, _ := strings.Cut(strings.ReplaceAll(step.Value, ":", "="), "=")
		w.template.Spec.Tolerations = append(w.template.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	case reason.FieldTimeLimit:
		limit, err := time.ParseDuration(step.Value)
		w.template.Spec.ActiveDeadlineSeconds = ptr.To(int64(limit / time.Second))
		return true, err
	case reason.FieldNodes, reason.FieldReplicas:
		return w.resizeTo(step.Value)
	case reason.FieldTopologyMode:
		text := w.meta.Annotations[names.AnnotationSubmitted]
		w.meta.Annotations[names.AnnotationSubmitted] = strings.Replace(text, "mode: required", "mode: "+step.Value, 1)
	default:
		return false, fmt.Errorf("nobody has carried out %s=%s yet", step.Field, step.Value)
	}
	return true, nil
}

// resizeTo gives the job another number of pods.
func (w *World) resizeTo(count string) (bool, error) {
	n, err := strconv.Atoi(count)
	if w.service != nil {
		w.service.Spec.Replicas = ptr.To(int32(n))
		w.unmade = len(w.placed) >= n
	} else {
		w.members = int32(n)
	}
	return true, err
}

// moveTo moves the job into a pool, which has to be there and to take it.
func (w *World) moveTo(pool string) (bool, error) {
	if pool == "" {
		return false, nil
	}
	if !slices.ContainsFunc(w.nodes, func(n corev1.Node) bool { return n.Labels[names.LabelPool] == pool }) {
		return false, fmt.Errorf("no node is in pool %s", pool)
	}
	if says := diagnosis.PoolDenial(w.cluster.GPUPools, pool, namespace, w.template.Spec.PriorityClassName); len(says) > 0 {
		return false, fmt.Errorf("%s", says)
	}
	w.template.Spec.NodeSelector[names.LabelPool] = pool
	return true, w.refuseEnded("move")
}

// setPriority gives the job a priority, which its pool has to take. What then leaves for it is the scheduler's to say.
func (w *World) setPriority(priority string) (bool, error) {
	class := "g8s-" + priority
	if says := diagnosis.PoolDenial(w.cluster.GPUPools, w.template.Spec.NodeSelector[names.LabelPool], namespace, class); len(says) > 0 {
		return false, fmt.Errorf("%s", says)
	}
	if w.template.Spec.PriorityClassName == class {
		return false, fmt.Errorf("it has priority %s", priority)
	}
	return false, w.refuseEnded("set priority")
}

// resumeJob resumes a job, which has to be paused or to wait for others. One that was paused waits for them still.
func (w *World) resumeJob() (bool, error) {
	waits := w.meta.Annotations[names.AnnotationWaitsFor] != ""
	switch paused := w.meta.Annotations[names.AnnotationPausedAt] != ""; {
	case !paused && !waits:
		return false, fmt.Errorf("the job is not paused, and waits for no other")
	case paused && waits:
		delete(w.meta.Annotations, names.AnnotationPausedAt)
	default:
		delete(w.meta.Annotations, names.AnnotationPausedAt)
		delete(w.meta.Annotations, names.AnnotationWaitsFor)
		w.unmade, w.spec.Suspend, w.status = false, nil, batchv1.JobStatus{StartTime: ptr.To(w.meta.CreationTimestamp)}
	}
	return true, nil
}

// retryJob starts the job over, which has to have ended.
func retryJob(w *World, step *diagnosis.Step) (bool, error) {
	if w.refuseEnded("retry") == nil {
		return false, fmt.Errorf("the job has not ended")
	}
	if step.Field != "" {
		if _, found, _, err := workload.Lookup("training." + step.Field); err != nil || found.Path == "" {
			return false, fmt.Errorf("a training has no field %s: %w", step.Field, err)
		}
		if _, err := resource.ParseQuantity(step.Value); step.Field == reason.FieldMemory && err != nil {
			return false, err
		}
	}
	delete(w.meta.Annotations, names.AnnotationCancelledAt)
	w.unmade, w.placed, w.status = false, nil, batchv1.JobStatus{StartTime: ptr.To(w.meta.CreationTimestamp)}
	return true, nil
}

func uncordon(w *World, step *diagnosis.Step) (bool, error) {
	at := slices.IndexFunc(w.nodes, func(n corev1.Node) bool { return n.Name == step.Name })
	if at < 0 {
		return false, fmt.Errorf("there is no node %s", step.Name)
	}
	w.nodes[at].Spec.Unschedulable = false
	return true, nil
}

// raiseQuota lets a quota have what the step says.
func raiseQuota(w *World, step *diagnosis.Step) (bool, error) {
	at := slices.IndexFunc(w.space.Quotas, func(q corev1.ResourceQuota) bool { return q.Name == step.Name })
	if step.Value == "" || at < 0 {
		return false, nil
	}
	value, err := resource.ParseQuantity(step.Value)
	if err != nil {
		return false, err
	}
	quota := w.space.Quotas[at].DeepCopy()
	quota.Spec.Hard[corev1.ResourceName(step.Field)], quota.Status.Hard[corev1.ResourceName(step.Field)] = value, value
	w.space.Quotas[at] = *quota
	return true, nil
}
