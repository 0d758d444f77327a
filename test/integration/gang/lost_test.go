package gang

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestAGangThatLosesAMemberEndsWhereAnotherHasItsPlace: the gang was whole, and a user has deleted one of it.
func TestAGangThatLosesAMemberEndsWhereAnotherHasItsPlace(t *testing.T) {
	e := newEnv(t)
	e.group("g", 2)
	controlled := e.controlled()
	e.member("g", "stays", controlled)
	e.member("g", "lost", controlled)
	e.waitBound("stays")
	e.waitBound("lost")
	e.member("", "other")
	e.waitTold("other", "0/")
	e.deleteNow("lost")
	e.waitBound("other")
	e.member("g", "again", controlled)
	e.Within(soon, "the rest of the gang to end", func(ctx context.Context) (bool, error) {
		pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, "stays", metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil, nil
	})
	e.staysUnbound("again")
}

// TestAGangOfKubeRaysSchedulerStartsWhole, as KubeRay makes it with --batch-scheduler=scheduler-plugins.
func TestAGangOfKubeRaysSchedulerStartsWhole(t *testing.T) {
	e := newEnv(t)
	e.group("ray", 2)
	theirs := func(pod *corev1.Pod) { pod.Spec.SchedulerName = names.SchedulerPluginsName }
	e.member("", "other", theirs)
	e.waitBound("other")
	e.member("ray", "head", theirs)
	e.member("ray", "worker", theirs)
	e.allTold("room for 1 of 2 members now", "head", "worker")
	e.staysUnbound("head", "worker")
	e.deleteNow("other")
	e.waitBound("head")
	e.waitBound("worker")
}
