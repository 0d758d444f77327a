package snapshot

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestLeaderOf(t *testing.T) {
	held := func(holder string, silent time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](3), RenewTime: &metav1.MicroTime{Time: t0.Add(-silent)},
		}}
	}
	stock := held("a", 20*time.Second)
	stock.Spec.LeaseDurationSeconds = nil
	tests := map[string]struct {
		lease *coordinationv1.Lease
		want  LeaderState
	}{
		"no scheduler was ever there":             {lease: nil, want: NeverLed},
		"a lease that nobody has renewed yet":     {lease: &coordinationv1.Lease{}, want: NeverLed},
		"the leader has resigned":                 {lease: held("", time.Second), want: NobodyLeads},
		"the leader has just renewed":             {lease: held("a", time.Second), want: Leads},
		"the clock of the leader is ahead":        {lease: held("a", -time.Minute), want: Leads},
		"the lease runs out":                      {lease: held("a", 3*time.Second), want: Leads},
		"a standby takes over, if there is one":   {lease: held("a", 4*time.Second), want: LeaderLate},
		"two leases are the longest that counts":  {lease: held("a", 6*time.Second), want: LeaderLate},
		"eight seconds after the leader has died": {lease: held("a", 8*time.Second), want: LeaderDead},
		"a lease that does not say how long":      {lease: stock, want: LeaderLate},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := LeaderOf(tc.lease, t0); got.State != tc.want {
				t.Errorf("it is %+v, want %s", got, tc.want)
			}
		})
	}
}
