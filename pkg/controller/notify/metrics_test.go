package notify

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"g8s.host/gpu-scheduler/pkg/controller/bounded"
)

func TestHealth(t *testing.T) {
	h := NewHealth()
	dead := Outcome{Why: "it answered 404"}
	for _, outcome := range []Outcome{{}, dead, dead} {
		h.Called("ml", outcome)
	}
	for _, outcome := range []Outcome{dead, {}} {
		h.Called("ops", outcome)
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
		h.Called(fmt.Sprint(i), Outcome{Why: "it answered 404"})
	}
	h.Called("0", Outcome{})
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
