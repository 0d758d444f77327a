package diagnosis

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// young is the age up to which the pods of a job may still be on their way.
const young = time.Minute

// gathering explains a pod that the scheduler refused because members of its gang were missing. It believes the pods
// that are there, not the verdict, which may be older than they are: when all are there, it reports false.
func gathering(f *Facts, pod *corev1.Pod, all int) (Finding, bool) {
	there := 0
	for i := range f.Pods {
		if member := &f.Pods[i]; member.Labels[names.LabelPodGroup] == pod.Labels[names.LabelPodGroup] && lives(member) {
			there++
		}
	}
	if there >= all {
		return Finding{}, false
	}
	out := Finding{Cause: GangIncomplete}
	if f.Now.Sub(f.Job.Created) < young {
		out.Text = fmt.Sprintf("%d of the job's %d members are there, the others are yet to be created", there, all)
		out.Advice = []string{"wait a moment: Kubernetes creates the others"}
		return out, true
	}
	out.Text = fmt.Sprintf("the job has %d of its %d members: the others have ended, or could not be created", there, all)
	out.Advice = []string{
		"see what became of the others: gpuctl describe job " + f.Job.Name + " -n " + f.Job.Namespace,
		"if it lasts, delete the job and submit it again",
	}
	return out, true
}

// gathered explains a gang whose members were all created after the scheduler spoke: by what stands against the nodes
// now, and by its turn when nothing does.
func (s *search) gathered(all int) ([]Finding, []NearMiss) {
	out, misses := s.explain("")
	if len(out) == 0 || out[0].Cause != RoomNow {
		return out, misses
	}
	return one(Finding{
		Cause: WaitingForTurn, Text: fmt.Sprintf("all %d members of the job are there, and the scheduler looks for their places", all),
		Advice: []string{"wait some seconds: the scheduler tries again by itself"},
	}), nil
}

func lives(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && pod.DeletionTimestamp == nil
}

// isStale says whether a verdict is that members of a gang were missing, so that one on another member says more.
func isStale(pod *corev1.Pod) bool {
	_, _, missing := inventory.MissingMembers(verdictOn(pod))
	return missing
}
