package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// TestDescribeSpotPool says how many machines there are, what they cost, and what keeps others from coming.
func TestDescribeSpotPool(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	p := inventory.SpotPool{
		Name: "spot-train", Pool: "train", GPUType: "A100-80G", Provider: "TencentCloud", Region: "ap-guangzhou", ChargeType: "Spot",
		Minimum: 2, Maximum: 8, Wanted: 3, Running: 1, Starting: 2, Interrupted: 1, MaxPrice: "1.90", MaxPerHour: "5.70", Created: ago(48 * time.Hour),
		Conditions: []inventory.SpotCondition{
			{Type: "CapacityAvailable", Status: "False", Message: "no type is to be had in any zone", Since: ago(3 * time.Minute)},
			{Type: "MachinesJoin", Status: "False", Message: "machine x was no ready node after 900 s", Since: ago(2 * time.Minute)},
		},
		Offers: []inventory.FailedOffer{{InstanceType: "GN10", Zone: "a", Reason: "sold out"}},
		Machines: []inventory.Machine{
			{Name: "spot-train-0123abcd", State: "Leaving", Leaving: "Interrupted", InstanceType: "GN10", Zone: "a", Instance: "ins-1", PrivateIP: "10.0.0.1", PublicIP: "203.0.113.1", Created: ago(5 * time.Hour)},
			{Name: "spot-train-4567cdef", State: "Launching", InstanceType: "GN10", Zone: "b", Created: ago(20 * time.Second)},
		},
	}
	streams, out, _ := TestIOStreams("")
	if err := describeSpotPool(newDescription(streams), &p, now); err != nil {
		t.Fatal(err)
	}
	want := `Name:        spot-train
Pool:        train
GPU type:    A100-80G
Cloud:       TencentCloud ap-guangzhou, Spot
Size:        3 wanted, of 2 to 8
Machines:    1 running, 2 starting, 1 interrupted, 0 leaving
Costs:       at most 5.70 an hour, 1.90 each, in the money of the account
Age:         2d
Capacity:    False for 3m: no type is to be had in any zone
Joining:     False for 2m: machine x was no ready node after 900 s
No capacity: GN10 in a: sold out

Machines:
  NAME                 STATE                  TYPE  ZONE  INSTANCE  IP        PUBLIC-IP    AGE
  spot-train-0123abcd  Leaving (Interrupted)  GN10  a     ins-1     10.0.0.1  203.0.113.1  5h
  spot-train-4567cdef  Launching              GN10  b     -         -         -            20s
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.Deleted, p.MaxPerHour = true, ""
	out.Reset()
	if err := describeSpotPool(newDescription(streams), &p, now); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "goes when its machines have ended") || strings.Contains(got, "Costs") {
		t.Errorf("of one that is deleted, without a price:\n%s", got)
	}
}
