package doctor

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// controllerName is the name of gpu-controller's workload, and of the lease for its leader election.
const controllerName = "gpu-controller"

// readController reads the lease of gpu-controller, where there is one.
func (f *Facts) readController(ctx context.Context, client kubernetes.Interface) (err error) {
	f.Controller, f.NoController, err = readLease(ctx, client, controllerName)
	return err
}

// readLease reads the lease of a program in namespace kube-system: nil if there is none, or if the user may not read it, which forbidden says.
func readLease(ctx context.Context, client kubernetes.Interface, program string) (lease *coordinationv1.Lease, forbidden bool, err error) {
	lease, err = client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, program, metav1.GetOptions{})
	switch {
	case err == nil:
		return lease, false, nil
	case apierrors.IsForbidden(err):
		return nil, true, nil
	case apierrors.IsNotFound(err):
		return nil, false, nil
	}
	return nil, false, phrase.Errorf("reading the lease of %s: %w", program, err)
}

// findLeader returns the leader of one of our programs with leader election. It returns false for other programs, and if the lease may not be read.
func (f *Facts) findLeader(program string) (snapshot.Leader, bool) {
	switch {
	case program == names.SchedulerName && f.HasPart(snapshot.PartLease):
		return *f.Leader(), true
	case program == controllerName && !f.NoController:
		return snapshot.LeaderOf(f.Controller, f.Now), true
	}
	return snapshot.Leader{}, false
}

// checkController checks whether gpu-controller works. It returns false if it never ran, as jobs run without it, and if the user may not read its lease.
func (f *Facts) checkController() (Check, bool) {
	leader, ok := f.findLeader(controllerName)
	check := Check{Name: controllerName, Status: Warning,
		Advice: phrase.Textf("see why it is down: kubectl -n kube-system get pods -l app.kubernetes.io/name=%[1]s; "+
			"if it was uninstalled for good: kubectl -n kube-system delete lease %[1]s", controllerName)}
	unattended := phrase.Textf(": nobody replaces disrupted pods, starts jobs that wait for others, or keeps pools")
	switch {
	case !ok || leader.State == snapshot.NeverLed:
		return Check{}, false
	case leader.State == snapshot.Leads:
		return Check{Name: controllerName, Status: OK, Text: phrase.Textf("%s leads", leader.Name)}, true
	case leader.State == snapshot.NobodyLeads:
		check.Text = phrase.Textf("no replica leads").Add(unattended)
	default:
		check.Text = phrase.Textf("its leader %s was last heard of %s ago", leader.Name, leader.Silent.Truncate(time.Second)).Add(unattended)
	}
	return check, true
}
