package tencent

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/spot"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

const (
	secretID  = "AKIDcanaryIdentity0001"
	secretKey = "canaryKeyOfTheAccount02"
	script    = "#!/bin/sh\nkubeadm join --token canary.Token03\n"
)

// service is a cloud behind its API.
type service struct {
	cloud   *fakecloud.Cloud
	api     *fakecloud.Tencent
	connect spot.Connect
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{cloud: fakecloud.New(1, time.Now())}
	s.api = &fakecloud.Tencent{Cloud: s.cloud, Keys: map[string]string{secretID: secretKey}, Region: "ap-singapore"}
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	var err error
	if s.connect, err = Connect(server.URL); err != nil {
		t.Fatal(err)
	}
	return s
}

func account(change func(*spot.Account)) spot.Account {
	out := spot.Account{
		Owner:    spot.Owner{Cluster: "cluster-1", Pool: "train-spot"},
		Provider: g8s.SpotProvider{Name: g8s.ProviderTencentCloud, Region: "ap-singapore"},
		Template: g8s.MachineTemplate{
			Zones: []g8s.MachineZone{{Name: "ap-singapore-2", Subnet: "subnet-2"}, {Name: "ap-singapore-3", Subnet: "subnet-3"}},
			Image: "img-1", Network: "vpc-1", SecurityGroups: []string{"sg-1"}, ChargeType: g8s.ChargeSpot, MaxPrice: "1.90",
			Disk: &g8s.MachineDisk{Type: "CLOUD_BSSD", SizeGiB: 100}, Role: "gpu-node", GPUs: 1,
		},
		Credentials: map[string]spot.Secret{"secretId": spot.NewSecret(secretID), "secretKey": spot.NewSecret(secretKey + "\n")},
		UserData:    spot.NewSecret(script),
	}
	if change != nil {
		change(&out)
	}
	return out
}

func (s *service) open(t *testing.T, change func(*spot.Account)) spot.Cloud {
	t.Helper()
	cloud, err := s.connect(account(change))
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

func order(name string) spot.Order {
	return spot.Order{Machine: name, Token: "token-of-" + name, InstanceType: "GN7.2XLARGE32", Zone: "ap-singapore-2"}
}

// TestAMachineFromItsOrderToItsEnd follows one, with a signature that the service checks.
func TestAMachineFromItsOrderToItsEnd(t *testing.T) {
	s := newService(t)
	cloud := s.open(t, nil)
	id, err := cloud.Launch(t.Context(), order("train-spot-1"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := cloud.Launch(t.Context(), order("train-spot-1"))
	if err != nil || again != id {
		t.Errorf("the same token bought %s after %s: %v", again, id, err)
	}
	bought := s.cloud.Machines()
	if len(bought) != 1 || bought[0].UserData != script || bought[0].Name != "train-spot-1" {
		t.Fatalf("got %+v", bought)
	}
	s.state(t, cloud, id, spot.Starting)
	s.cloud.At(time.Now().Add(time.Minute))
	found := s.state(t, cloud, id, spot.Running)
	want := spot.Instance{ID: id, Machine: "train-spot-1", InstanceType: "GN7.2XLARGE32", Zone: "ap-singapore-2", PrivateIP: bought[0].IP, State: spot.Running}
	if found != want {
		t.Errorf("got %+v, want %+v", found, want)
	}
	for range 2 {
		if err := cloud.Terminate(t.Context(), []string{id}); err != nil {
			t.Fatal(err)
		}
		s.state(t, cloud, id, spot.Stopping)
	}
	s.cloud.At(time.Now().Add(2 * time.Minute))
	if err := cloud.Terminate(t.Context(), []string{id}); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
	if list, err := cloud.List(t.Context(), []string{id}); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v, want none", list, err)
	}
}

// state is an instance that has a state.
func (s *service) state(t *testing.T, cloud spot.Cloud, id string, want spot.InstanceState) spot.Instance {
	t.Helper()
	list, err := cloud.List(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].State != want {
		t.Fatalf("got %+v, %v, want %s in state %d", list, err, id, want)
	}
	return list[0]
}

// TestOnlyOurMachinesAreSeen has many, those of others, and such whose tags come late.
func TestOnlyOurMachinesAreSeen(t *testing.T) {
	s := newService(t)
	cloud := s.open(t, nil)
	const ours = 250
	for i := range ours {
		if _, err := cloud.Launch(t.Context(), order(fmt.Sprintf("train-spot-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range []func(*spot.Account){
		func(a *spot.Account) { a.Owner.Pool = "other" }, func(a *spot.Account) { a.Owner.Cluster = "cluster-2" },
	} {
		if _, err := s.open(t, change).Launch(t.Context(), order(fmt.Sprintf("other-%p", change))); err != nil {
			t.Fatal(err)
		}
	}
	s.cloud.Put(fakecloud.Machine{ID: "ins-untagged", Order: fakecloud.Order{Name: "late"}})
	list, err := cloud.List(t.Context(), []string{"ins-untagged", "ins-000001", "ins-that-is-gone"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != ours+1 || !slices.ContainsFunc(list, func(i spot.Instance) bool { return i.ID == "ins-untagged" }) {
		t.Errorf("%d machines are listed, want %d and the untagged one", len(list), ours)
	}
	var ids []string
	for _, instance := range list {
		ids = append(ids, instance.ID)
	}
	if err := cloud.Terminate(t.Context(), append(ids, "ins-that-is-gone")); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.cloud.Machines() {
		if others := strings.HasPrefix(m.Name, "other"); m.Asked == others {
			t.Errorf("machine %s was ended: %v", m.Name, m.Asked)
		}
	}
}

// TestWhatErrorsMean goes through the codes, and through an account that is none. No error shows what was sent.
func TestWhatErrorsMean(t *testing.T) {
	s := newService(t)
	var code atomic.Value // read while a request that timed out is still answered
	s.api.Fail = func(string) string { said, _ := code.Load().(string); return said }
	tests := map[string]struct {
		code    string
		account func(*spot.Account)
		faults  fakecloud.Faults
		want    spot.Kind
	}{
		"sold out":               {code: "ResourceInsufficient.SpecifiedInstanceType", want: spot.SoldOut},
		"a zone is sold out":     {code: "ResourcesSoldOut.AvailableZone", want: spot.SoldOut},
		"no quota for spot":      {code: "LimitExceeded.UserSpotQuota", want: spot.SoldOut},
		"throttled":              {code: "RequestLimitExceeded", want: spot.Throttled},
		"throttled by address":   {code: "RequestLimitExceeded.IPLimitExceeded", want: spot.Throttled},
		"no money":               {code: "InvalidAccount.InsufficientBalance", want: spot.Denied},
		"not a spot type":        {code: "UnsupportedOperation.NoInstanceTypeSupportSpot", want: spot.Refused},
		"no such image":          {code: "InvalidImageId.NotFound", want: spot.Refused},
		"a code nobody knows":    {code: "FancyNewFault", want: spot.Refused},
		"the cloud's own fault":  {code: "InternalError", want: spot.Lost},
		"a code that is a story": {code: secretID + " is not a code", want: spot.Lost},
		"a wrong key": {
			account: func(a *spot.Account) { a.Credentials["secretKey"] = spot.NewSecret("canaryWrong") }, want: spot.Denied,
		},
		"an unknown ID": {account: func(a *spot.Account) { a.Credentials["secretId"] = spot.NewSecret("AKIDcanary") }, want: spot.Denied},
		"a lost answer": {faults: fakecloud.Faults{LoseAfter: 1}, want: spot.Lost},
		"a lost call":   {faults: fakecloud.Faults{LoseBefore: 1}, want: spot.Lost},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code.Store(tc.code)
			s.cloud.Set(tc.faults)
			cloud := s.open(t, tc.account)
			_, launching := cloud.Launch(t.Context(), order("train-spot-"+strings.ReplaceAll(name, " ", "-")))
			_, listing := cloud.List(t.Context(), nil)
			for _, err := range []error{launching, listing} {
				var refusal *spot.Error
				if !errors.As(err, &refusal) || refusal.Kind != tc.want {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				if text := fmt.Sprintf("%v %+v %#v", err, err, refusal); strings.Contains(text, "canary") {
					t.Errorf("it shows a secret: %s", text)
				}
			}
		})
	}
}

// TestACallEnds gives up in time.
func TestACallEnds(t *testing.T) {
	s := newService(t)
	s.api.Delay = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.open(t, nil).List(ctx, nil); kindOf(err) != spot.Lost {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestAnAccountThatIsNone is refused before anything is asked.
func TestAnAccountThatIsNone(t *testing.T) {
	s := newService(t)
	for name, credentials := range map[string]map[string]spot.Secret{
		"no Secret": nil, "no key": {"secretId": spot.NewSecret(secretID)}, "an empty key": {"secretId": spot.NewSecret(secretID), "secretKey": spot.NewSecret(" \n")},
	} {
		if _, err := s.connect(account(func(a *spot.Account) { a.Credentials = credentials })); err == nil || !strings.Contains(err.Error(), "secretKey") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, endpoint := range []string{"", "cvm.tencentcloudapi.com", "ftp://x", "https://x/path", "https://"} {
		if _, err := Connect(endpoint); err == nil {
			t.Errorf("the address %q was taken", endpoint)
		}
	}
}

// TestMachinesNeedNoPassword: without key pairs the image decides who logs in, and a price is for spot machines.
func TestMachinesNeedNoPassword(t *testing.T) {
	s := newService(t)
	for name, change := range map[string]func(*spot.Account){
		"keys": func(a *spot.Account) { a.Template.KeyPairs = []string{"skey-1"} }, "image": nil,
		"on-demand": func(a *spot.Account) { a.Template.ChargeType = g8s.ChargeOnDemand },
		"bare": func(a *spot.Account) {
			a.Template.Disk, a.Template.Role, a.Template.MaxPrice, a.UserData = nil, "", "", spot.Secret{}
		},
	} {
		if _, err := s.open(t, change).Launch(t.Context(), order("m-"+name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHowMachinesReachTheInternet goes through the ways to pay for it. A public address is shown when the machine has one.
func TestHowMachinesReachTheInternet(t *testing.T) {
	for name, tc := range map[string]struct {
		internet *g8s.MachineInternet
		public   bool
	}{
		"none":         {nil, false},
		"by the hour":  {&g8s.MachineInternet{BandwidthMbps: 1, ChargeType: g8s.InternetBandwidth}, true},
		"by what goes": {&g8s.MachineInternet{BandwidthMbps: 100, ChargeType: g8s.InternetTraffic, PublicIP: ptr.To(true)}, true},
		"a package":    {&g8s.MachineInternet{BandwidthMbps: 5, ChargeType: g8s.InternetBandwidthPackage, BandwidthPackage: "bwp-1"}, true},
		"no address":   {&g8s.MachineInternet{BandwidthMbps: 1, ChargeType: g8s.InternetTraffic, PublicIP: ptr.To(false)}, false},
	} {
		s := newService(t)
		s.cloud.AddressesAfter = time.Minute
		cloud := s.open(t, func(a *spot.Account) { a.Template.Internet = tc.internet })
		id, err := cloud.Launch(t.Context(), order("m-1"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found := s.state(t, cloud, id, spot.Starting); found.PrivateIP+found.PublicIP != "" {
			t.Errorf("%s: it has no address yet: %+v", name, found)
		}
		s.cloud.At(time.Now().Add(2 * time.Minute))
		if found := s.state(t, cloud, id, spot.Running); found.PrivateIP == "" || (found.PublicIP != "") != tc.public {
			t.Errorf("%s: got %+v", name, found)
		}
	}
}

// TestAPublicImageNeedsKeyPairs, which the cloud refuses without naming the field.
func TestAPublicImageNeedsKeyPairs(t *testing.T) {
	s := newService(t)
	image := func(a *spot.Account) { a.Template.Image = "img-public-1" }
	_, err := s.open(t, image).Launch(t.Context(), order("m-1"))
	var refusal *spot.Error
	if !errors.As(err, &refusal) || refusal.Kind != spot.Refused ||
		refusal.Error() != "the cloud refuses such a machine; without keyPairs the image must be one of the account's own, or shared with it (InvalidParameterCombination)" {
		t.Errorf("got %v", err)
	}
	keys := func(a *spot.Account) { image(a); a.Template.KeyPairs = []string{"skey-1"} }
	if _, err := s.open(t, keys).Launch(t.Context(), order("m-2")); err != nil {
		t.Errorf("with key pairs: %v", err)
	}
	s.api.Fail = func(string) string { return "InvalidParameterCombination" }
	if _, err := s.open(t, keys).Launch(t.Context(), order("m-3")); err == nil || strings.Contains(err.Error(), "keyPairs") {
		t.Errorf("with key pairs, and refused: %v", err)
	}
}
