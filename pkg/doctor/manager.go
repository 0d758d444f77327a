package doctor

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// managerName is the name of Kubernetes' own controllers, and of the lease for their leader election.
const managerName = "kube-controller-manager"

// readManager reads the lease of kube-controller-manager. Control planes without leader election have none.
func (f *Facts) readManager(ctx context.Context, client kubernetes.Interface) (err error) {
	f.Manager, _, err = readLease(ctx, client, managerName)
	return err
}

// slowManager is the age of a Job that Kubernetes' controllers have seen if they run, however far behind they are.
const slowManager = time.Minute

// checkManager checks whether Kubernetes' own controllers run, by their lease, and by Jobs that none of them has seen: without them no job gets a pod.
func (f *Facts) checkManager() Check {
	check := Check{Name: managerName, Status: Failed,
		Advice: phrase.Textf("start it: where it is a pod, kubectl -n kube-system get pods -l component=%s says why it is down", managerName)}
	unmade := phrase.Textf("Kubernetes makes no pods for jobs")
	leader := snapshot.LeaderOf(f.Manager, f.Now)
	switch leader.State {
	case snapshot.NobodyLeads:
		check.Text = phrase.Textf("no replica leads, so that %s", unmade)
		return check
	case snapshot.LeaderDead:
		check.Text = phrase.Textf("its leader %s was last heard of %s ago, so that %s", leader.Name, leader.Silent.Truncate(time.Second), unmade)
		return check
	}
	if unknown, unread := f.checkUnread(managerName, snapshot.PartJobs); unread && f.Manager == nil {
		return unknown
	}
	var unseen []string
	for i := range f.Jobs {
		if job := &f.Jobs[i]; f.isUnseen(job) {
			unseen = append(unseen, job.Namespace+"/"+job.Name)
		}
	}
	if len(unseen) > 0 {
		check.Text = phrase.Textf("no controller has seen Jobs that were created more than a minute ago, so that %s: %s", unmade, examplesText(unseen))
		return check
	}
	return Check{Name: managerName, Status: OK, Text: phrase.Textf("no Job waits for it")}
}

// isUnseen reports whether Kubernetes' controllers have not seen a Job that they should have seen by now. A Job that another controller manages is not
// theirs.
func (f *Facts) isUnseen(job *batchv1.Job) bool {
	managed := ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
	return !managed && job.DeletionTimestamp == nil && job.Status.StartTime == nil && len(job.Status.Conditions) == 0 && f.Now.Sub(job.CreationTimestamp.Time) > slowManager
}
