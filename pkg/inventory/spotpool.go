package inventory

import (
	"context"
	"math/big"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// SpotPool maintains machines of a cloud as nodes of a pool. JSON keys are a contract.
type SpotPool struct {
	Name     string `json:"name"`
	Pool     string `json:"pool"`
	GPUType  string `json:"gpuType,omitempty"`
	Provider string `json:"provider"`
	Region   string `json:"region,omitempty"`
	// ChargeType is Spot or OnDemand.
	ChargeType string `json:"chargeType"`
	// Minimum and Maximum are how many machines there always are, and may be.
	Minimum int32 `json:"minimum"`
	Maximum int32 `json:"maximum"`
	// Wanted is how many machines gpu-controller currently keeps or buys, Running how many of them are ready nodes, and Starting how many are being
	// bought or boot. Interrupted are those that the cloud takes back, and Leaving all others that are being removed.
	Wanted      int32 `json:"wanted"`
	Running     int32 `json:"running"`
	Starting    int32 `json:"starting"`
	Interrupted int32 `json:"interrupted"`
	Leaving     int32 `json:"leaving"`
	// MaxPrice is the most that an hour of a machine may cost that is bought now, in the money of the account, "" for the cloud's
	// own price, which is also that of OnDemand machines; and MaxPerHour that of all machines together which may be there.
	MaxPrice   string `json:"maxPrice,omitempty"`
	MaxPerHour string `json:"mostPerHour,omitempty"`
	// Trouble is what keeps machines from joining, "" for nothing.
	Trouble string `json:"trouble,omitempty"`
	// Stale is true if gpu-controller has not processed this version of its spec yet, and Deleted if it is being deleted.
	Stale      bool            `json:"stale,omitempty"`
	Deleted    bool            `json:"deleted,omitempty"`
	Created    time.Time       `json:"created"`
	Conditions []SpotCondition `json:"conditions"`
	Machines   []Machine       `json:"machines"`
	// Offers are the types and zones that were not available.
	Offers []FailedOffer `json:"offers,omitempty"`
}

// SpotCondition is a condition of a SpotPool. JSON keys are a contract.
type SpotCondition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// FailedOffer is a type in a zone that was not available. JSON keys are a contract.
type FailedOffer struct {
	InstanceType string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	Failures     int32     `json:"failures"`
	Reason       string    `json:"reason"`
	RetryAfter   time.Time `json:"retryAfter"`
}

// Machine is a machine of a SpotPool. JSON keys are a contract.
type Machine struct {
	Name         string `json:"name"`
	State        string `json:"state"`
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// Instance is what the cloud calls it, "" while that is not known.
	Instance  string `json:"instance,omitempty"`
	PrivateIP string `json:"privateIP,omitempty"`
	// PublicIP is its public address, "" while it has none.
	PublicIP string    `json:"publicIP,omitempty"`
	Created  time.Time `json:"created"`
	// Joined is when its node was ready first, IdleSince since when no job runs there.
	Joined    *time.Time `json:"joined,omitempty"`
	IdleSince *time.Time `json:"idleSince,omitempty"`
	// Leaving is why it is being removed, and End when the cloud takes it, if announced.
	Leaving string     `json:"leaving,omitempty"`
	End     *time.Time `json:"end,omitempty"`
}

// NoSpotPoolsError reports that a cluster has no SpotPools.
type NoSpotPoolsError struct{}

func (e *NoSpotPoolsError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (*NoSpotPoolsError) Message() phrase.Text {
	return phrase.Textf("this cluster knows no SpotPools: have the administrators apply manifests/crds and manifests/spot")
}

// SpotPools reads all SpotPools, sorted by name: one request. It returns a [NoSpotPoolsError] where there can be none.
func (r *Reader) SpotPools(ctx context.Context) ([]SpotPool, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.SpotPools())
	if apierrors.IsNotFound(err) {
		return nil, &NoSpotPoolsError{}
	}
	if err != nil {
		return nil, phrase.Errorf("reading SpotPools: %w", err)
	}
	return BuildSpotPools(read.SpotPools), nil
}

// BuildSpotPools is what SpotPools say, sorted by name.
func BuildSpotPools(pools []names.SpotPool) []SpotPool {
	out := make([]SpotPool, 0, len(pools))
	for i := range pools {
		out = append(out, buildSpotPool(&pools[i]))
	}
	slices.SortFunc(out, func(a, b SpotPool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func buildSpotPool(p *names.SpotPool) SpotPool {
	out := SpotPool{
		Name: p.Name, Pool: p.Spec.Pool, GPUType: p.Spec.GPUType, Provider: p.Spec.Provider.Name, Region: p.Spec.Provider.Region,
		ChargeType: p.Spec.Template.ChargeType, Minimum: p.Spec.Minimum, Maximum: p.Spec.Maximum,
		Wanted: p.Status.Size, Running: p.Status.Joined, MaxPrice: maxPrice(&p.Spec.Template), Created: p.CreationTimestamp.UTC(),
		Stale: p.Status.ObservedGeneration != p.Generation, Deleted: p.DeletionTimestamp != nil,
		Conditions: []SpotCondition{}, Machines: []Machine{},
	}
	for _, c := range p.Status.Conditions {
		out.Conditions = append(out.Conditions, SpotCondition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC(),
		})
	}
	for _, o := range p.Status.Offers {
		out.Offers = append(out.Offers, FailedOffer{
			InstanceType: o.InstanceType, Zone: o.Zone, Failures: o.Failures, Reason: o.Reason, RetryAfter: o.RetryAfter.UTC(),
		})
	}
	paid := 0
	for i := range p.Status.Machines {
		m := &p.Status.Machines[i]
		out.Machines = append(out.Machines, buildMachine(m))
		switch {
		case m.Leaving == nil && m.JoinedAt == nil:
			out.Starting++
		case m.Leaving != nil && m.Leaving.Reason == names.LeavingInterrupted:
			out.Interrupted++
		case m.Leaving != nil:
			out.Leaving++
		}
		if mayBeCharged(m) {
			paid++
		}
	}
	slices.SortFunc(out.Machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	out.MaxPerHour = multiplyPrice(out.MaxPrice, paid)
	out.Trouble = spotPoolTrouble(p.Status.Conditions)
	return out
}

// maxPrice is the limit on the price of machines. It is not sent to the cloud for OnDemand ones.
func maxPrice(t *names.MachineTemplate) string {
	if t.ChargeType == names.ChargeOnDemand {
		return ""
	}
	return t.MaxPrice
}

// mayBeCharged reports whether a machine may be charged for: one whose order was not answered may already run.
func mayBeCharged(m *names.SpotMachine) bool {
	return (m.Instance != "" || m.Asked != nil) && m.State != names.MachineGone
}

func buildMachine(m *names.SpotMachine) Machine {
	out := Machine{
		Name: m.Name, State: m.State, InstanceType: m.InstanceType, Zone: m.Zone, Instance: m.Instance, PrivateIP: m.PrivateIP, PublicIP: m.PublicIP,
		Created: m.Requested.UTC(), Joined: utcTime(m.JoinedAt), IdleSince: utcTime(m.IdleSince),
	}
	if m.Leaving != nil {
		out.Leaving, out.End = m.Leaving.Reason, utcTime(m.Leaving.End)
	}
	return out
}

func utcTime(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}

// multiplyPrice is a decimal price times a count; "" for none.
func multiplyPrice(price string, count int) string {
	one, ok := new(big.Rat).SetString(price)
	if !ok {
		return ""
	}
	return one.Mul(one, big.NewRat(int64(count), 1)).FloatString(2)
}

// spotPoolTrouble is what keeps machines from joining: the cloud does not answer, they do not join, or it has none. Without such a condition, missing
// machines have just not arrived yet.
func spotPoolTrouble(conditions []metav1.Condition) string {
	for _, kind := range []string{names.ConditionCloudAnswers, names.ConditionMachinesJoin, names.ConditionCapacityAvailable} {
		if condition := meta.FindStatusCondition(conditions, kind); condition != nil && condition.Status == metav1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}
