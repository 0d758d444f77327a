package notify

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/bounded"
)

func TestHealth(t *testing.T) {
	h := NewHealth()
	dead := Outcome{Why: "it answered 404"}
	for _, outcome := range []Outcome{{}, dead, dead} {
		h.RecordCall("ml", outcome)
	}
	for _, outcome := range []Outcome{dead, {}} {
		h.RecordCall("ops", outcome)
	}
	for channel, want := range map[string]float64{"ml": 1, "ops": 0} {
		if got := testutil.ToFloat64(h.failing.WithLabelValues(channel)); got != want {
			t.Errorf("%s is failing %v, want %v", channel, got, want)
		}
	}
}

// TestChannelsWithoutEnd are counted together; those that were known before go on to be told one by one.
func TestChannelsWithoutEnd(t *testing.T) {
	h := NewHealth()
	for i := range mostChannels + 5 {
		h.RecordCall(fmt.Sprint(i), Outcome{Why: "it answered 404"})
	}
	h.RecordCall("0", Outcome{})
	if got := testutil.CollectAndCount(h.failing); got != mostChannels+1 {
		t.Errorf("%d channels are told, want %d and the others as one", got, mostChannels)
	}
	if got := testutil.ToFloat64(h.failing.WithLabelValues(bounded.Others)); got != 1 {
		t.Errorf("the others are failing %v, want 1", got)
	}
	if got := testutil.ToFloat64(h.failing.WithLabelValues("0")); got != 0 {
		t.Error("a channel that was known is counted with the others")
	}
}

// TestAChannelThatIsNoMore is not told as failing, and leaves its place to another.
func TestAChannelThatIsNoMore(t *testing.T) {
	policy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: g8s.PolicyConfigMap}, Data: map[string]string{
		g8s.PolicyChannel + "new": "*", g8s.PolicyChannel + "dead": "other",
	}}
	live := fake.NewClientBuilder().WithObjects(policy).Build()
	clock := clocktesting.NewFakePassiveClock(noon)
	h := NewHealth()
	directory := &Directory{Live: live, Clock: clock, OnRead: h.PruneChannels}
	failed := Outcome{Why: "it answered 404"}
	h.RecordCall("dead", failed)
	for i := range mostChannels { // one is more than are told
		h.RecordCall(fmt.Sprint(i), failed)
	}
	directory.ResolveAddress(t.Context(), "new", "team")
	if got := testutil.CollectAndCount(h.failing); got != 1 || testutil.ToFloat64(h.failing.WithLabelValues("dead")) != 1 {
		t.Errorf("%d channels are told, want the one that is there, though not for the namespace", got)
	}
	h.RecordCall("new", failed)
	if got := testutil.ToFloat64(h.failing.WithLabelValues("new")); got != 1 {
		t.Error("a channel did not get the place of one that is no more")
	}
	delete(policy.Data, g8s.PolicyChannel+"dead")
	if err := live.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(noon.Add(directoryTTL))
	if _, outcome := directory.ResolveAddress(t.Context(), "dead", "other"); outcome.Why == "" {
		t.Error("a channel that is no more leads somewhere")
	}
	if got := testutil.CollectAndCount(h.failing); got != 1 {
		t.Errorf("%d channels are told, want the new one", got)
	}
}
