package gpuquota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// pool is an account of pool h100 that holds what pods of namespaces hold, in order of their age.
func poolOf(quotas []Quota, held ...Holding) *Account {
	a := NewAccount(quotas)
	for i, h := range held {
		h.Pod = types.UID(fmt.Sprint("pod-", i))
		if h.Unit == "" {
			h.Unit = string(h.Pod)
		}
		h.Since = time.Unix(int64(i), 0)
		a.SetHolding(h)
	}
	return a
}

func held(namespace, gpuType string, gpus int64) Holding {
	return Holding{Namespace: namespace, At: Place{"h100", gpuType}, GPUs: gpus}
}

// TestWhatIsLentAndToWhom counts what quotas do not use: free, or borrowed by others.
func TestWhatIsLentAndToWhom(t *testing.T) {
	of := func(namespace, gpuType string, least int64) Quota {
		return Quota{Name: namespace + gpuType, Namespaces: []string{namespace}, Pool: "h100", Type: gpuType, Min: least, Max: Unbounded}
	}
	type left struct {
		Free, Lent int64
		Borrowers  []Borrower
	}
	tests := map[string]struct {
		quotas []Quota
		held   []Holding
		free   int64 // of SXM
		want   []left
	}{
		"nobody is there": {quotas: []Quota{of("a", "", 16)}, free: 32, want: []left{{Free: 16}}},
		"others borrow all of it": {quotas: []Quota{of("a", "", 16)}, held: []Holding{held("c", "SXM", 4), held("b", "SXM", 8), held("b", "PCIe", 8)},
			want: []left{{Lent: 16, Borrowers: []Borrower{{"b", 16}, {"c", 4}}}}},
		"some of it is free": {quotas: []Quota{of("a", "", 16)}, held: []Holding{held("b", "SXM", 16)}, free: 4,
			want: []left{{Free: 4, Lent: 12, Borrowers: []Borrower{{"b", 16}}}}},
		"it uses some":                {quotas: []Quota{of("a", "", 16)}, held: []Holding{held("a", "SXM", 12), held("b", "SXM", 8)}, want: []left{{Lent: 4, Borrowers: []Borrower{{"b", 8}}}}},
		"it uses all":                 {quotas: []Quota{of("a", "", 16)}, held: []Holding{held("a", "SXM", 16), held("b", "SXM", 8)}, free: 8, want: []left{{}}},
		"no min, and nothing is lent": {quotas: []Quota{of("a", "", 0)}, held: []Holding{held("b", "SXM", 8)}, want: []left{{}}},
		"who is guaranteed their GPUs borrows nothing": {quotas: []Quota{of("a", "", 16), of("b", "", 8)}, held: []Holding{held("b", "SXM", 8), held("b", "SXM", 8)},
			want: []left{{Lent: 8, Borrowers: []Borrower{{"b", 8}}}, {}}},
		"another type is not borrowed from it": {quotas: []Quota{of("a", "SXM", 16)}, held: []Holding{held("b", "PCIe", 8)}, want: []left{{}}},
		"nodes are gone that it would be on":   {quotas: []Quota{of("a", "", 16)}, held: []Holding{held("b", "SXM", 4)}, want: []left{{Lent: 4, Borrowers: []Borrower{{"b", 4}}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []left
			for _, s := range poolOf(tc.quotas, tc.held...).QuotaStates(map[Place]Stock{{"h100", "SXM"}: {There: 32, Open: 32, Free: tc.free}}, nil) {
				got = append(got, left{s.Free, s.Lent, s.Borrowers})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatWaits(t *testing.T) {
	a := NewAccount([]Quota{{Name: "all", Namespaces: []string{"a", "b"}, Pool: "h100"}, {Name: "sxm", Namespaces: []string{"a"}, Pool: "h100", Type: "SXM"}})
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	states := a.QuotaStates(nil, []Demand{
		{Namespace: "a", Pool: "h100", Job: "a/j", GPUs: 8, Since: at(2)}, {Namespace: "a", Pool: "h100", Job: "a/j", GPUs: 8, Since: at(1)},
		{Namespace: "b", Pool: "h100", Job: "b/j", GPUs: 4, Since: at(3)}, {Namespace: "a", Pool: "h100", Job: "a/pcie", Types: []string{"PCIe"}, GPUs: 1, Since: at(0)},
		{Namespace: "a", Pool: "other", Job: "a/o", GPUs: 1}, {Namespace: "c", Pool: "h100", Job: "c/j", GPUs: 1},
	})
	want := []Waiting{{Jobs: 3, GPUs: 21, Since: at(0)}, {Jobs: 1, GPUs: 16, Since: at(1)}}
	if diff := cmp.Diff(want, []Waiting{states[0].Waiting, states[1].Waiting}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMoreIsGuaranteedThanThereIs is told of the quotas whose GPUs are promised twice, and of those that nodes cannot give.
func TestMoreIsGuaranteedThanThereIs(t *testing.T) {
	quota := func(name, gpuType string, least int64, namespaces ...string) Quota {
		return Quota{Name: name, Namespaces: namespaces, Pool: "h100", Type: gpuType, Min: least, Max: Unbounded}
	}
	full := map[Place]Stock{{"h100", "SXM"}: {There: 16, Open: 16}, {"h100", "PCIe"}: {There: 16, Open: 16}}
	tests := map[string]struct {
		quotas []Quota
		stock  map[Place]Stock
		want   string // the problems of the first quota
	}{
		"just enough":                    {[]Quota{quota("a", "", 16, "a"), quota("b", "", 16, "b")}, full, ""},
		"too much":                       {[]Quota{quota("a", "", 16, "a"), quota("b", "", 17, "b")}, full, "Overcommitted MinNotBacked/TooFewGPUs"},
		"too much of a type":             {[]Quota{quota("a", "SXM", 10, "a"), quota("b", "SXM", 10, "b")}, full, "Overcommitted MinNotBacked/TooFewGPUs"},
		"of another type":                {[]Quota{quota("a", "PCIe", 10, "a"), quota("b", "SXM", 17, "b")}, full, ""},
		"types leave too little":         {[]Quota{quota("a", "", 17, "a"), quota("b", "SXM", 16, "b")}, full, "Overcommitted MinNotBacked/TooFewGPUs"},
		"one lies within another":        {[]Quota{quota("a", "", 32, "a", "b"), quota("b", "SXM", 16, "a")}, full, ""},
		"two equal ones say it twice":    {[]Quota{quota("a", "", 32, "a"), quota("b", "", 32, "a")}, full, ""},
		"those within are more together": {[]Quota{quota("a", "", 8, "a", "b", "c"), quota("b", "", 20, "b"), quota("c", "", 20, "c")}, full, "Overcommitted MinNotBacked/TooFewGPUs"},
		"they only overlap":              {[]Quota{quota("a", "", 20, "a", "b"), quota("b", "", 20, "b", "c")}, full, "Overcommitted MinNotBacked/TooFewGPUs"},
		"nothing is guaranteed":          {[]Quota{quota("a", "", 0, "a"), quota("b", "", 64, "b")}, full, ""},
		"a pool without nodes":           {[]Quota{quota("a", "", 8, "a")}, nil, "Overcommitted MinNotBacked/NoSuchGPUs"},
		"a type that is misspelt":        {[]Quota{quota("a", "SMX", 8, "a")}, full, "Overcommitted MinNotBacked/NoSuchGPUs"},
		"nodes are closed":               {[]Quota{quota("a", "", 16, "a")}, map[Place]Stock{{"h100", "SXM"}: {There: 16, Open: 8}}, "MinNotBacked/NodesClosed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			states := NewAccount(tc.quotas).QuotaStates(tc.stock, nil)
			var got []string
			for _, c := range states[0].Conditions() {
				switch {
				case c.Status != "True":
					if c.Reason != ReasonThereIsEnough {
						t.Errorf("%s is %s for %s", c.Type, c.Status, c.Reason)
					}
				case c.Type == names.ConditionOvercommitted:
					got = append(got, c.Type)
				default:
					got = append(got, c.Type+"/"+c.Reason)
				}
			}
			if said := strings.Join(got, " "); said != tc.want {
				t.Errorf("it says %q, want %q", said, tc.want)
			}
		})
	}
}
