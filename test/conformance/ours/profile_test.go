package ours

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configtesting "k8s.io/kubernetes/pkg/scheduler/apis/config/testing"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"
)

// made is what runs in a scheduler that a test asks for.
func made(t *testing.T, options ...scheduler.Option) *config.Plugins {
	t.Helper()
	client := fake.NewClientset()
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	options = append(options, scheduler.WithKubeConfig(&rest.Config{Host: "https://127.0.0.1:1"}))
	sched, err := New(t.Context(), client, informers.NewSharedInformerFactory(client, 0), nil, recorders, options...)
	if err != nil {
		t.Fatal(err)
	}
	return sched.Profiles["default-scheduler"].ListPlugins()
}

func namesOf(set config.PluginSet) string {
	var names []string
	for _, plugin := range set.Enabled {
		names = append(names, plugin.Name)
	}
	return strings.Join(names, " ")
}

// TestAProfileWithoutSettingsIsTheOneThatWeShip, at every extension point.
func TestAProfileWithoutSettingsIsTheOneThatWeShip(t *testing.T) {
	s, err := readShipped()
	if err != nil {
		t.Fatal(err)
	}
	got := made(t)
	for point, sets := range map[string][2]config.PluginSet{
		"queueSort": {got.QueueSort, s.runs.QueueSort}, "preFilter": {got.PreFilter, s.runs.PreFilter}, "filter": {got.Filter, s.runs.Filter},
		"postFilter": {got.PostFilter, s.runs.PostFilter}, "preScore": {got.PreScore, s.runs.PreScore}, "score": {got.Score, s.runs.Score},
		"reserve": {got.Reserve, s.runs.Reserve}, "permit": {got.Permit, s.runs.Permit}, "preBind": {got.PreBind, s.runs.PreBind},
		"bind": {got.Bind, s.runs.Bind}, "postBind": {got.PostBind, s.runs.PostBind}, "preEnqueue": {got.PreEnqueue, s.runs.PreEnqueue},
	} {
		if !slices.Equal(sets[0].Enabled, sets[1].Enabled) {
			t.Errorf("%s: %v, want %v", point, sets[0].Enabled, sets[1].Enabled)
		}
	}
}

// TestWhatATestAsksForIsKept, with what is ours beside it.
func TestWhatATestAsksForIsKept(t *testing.T) {
	profileOf := func(plugins configv1.Plugins) scheduler.Option {
		cfg := configtesting.V1ToInternalWithDefaults(t, configv1.KubeSchedulerConfiguration{
			Profiles: []configv1.KubeSchedulerProfile{{SchedulerName: ptr.To("default-scheduler"), Plugins: &plugins}},
		})
		return scheduler.WithProfiles(cfg.Profiles...)
	}
	all := []configv1.Plugin{{Name: "*"}}
	one := func(name string) []configv1.Plugin { return []configv1.Plugin{{Name: name}} }

	alone := made(t, profileOf(configv1.Plugins{Score: configv1.PluginSet{Enabled: one("ImageLocality"), Disabled: all}}))
	if got := namesOf(alone.Score); got != "ImageLocality GPUScore" || alone.Score.Enabled[1].Weight != 10000 {
		t.Errorf("score %s, want the test's and ours, with its weight", got)
	}
	filters := made(t, profileOf(configv1.Plugins{Filter: configv1.PluginSet{Enabled: one("NodeName"), Disabled: all}}))
	if got := namesOf(filters.Filter); !strings.HasPrefix(got, "NodeName ") || !strings.Contains(got, "GPUFilter") || strings.Contains(got, "TaintToleration") {
		t.Errorf("filter %s, want the test's and ours, and nothing that it turned off", got)
	}
	sorted := made(t, profileOf(configv1.Plugins{QueueSort: configv1.PluginSet{Enabled: one("PrioritySort")}}))
	if got := namesOf(sorted.QueueSort); got != "Coscheduling" {
		t.Errorf("queueSort %s, want ours in place of the stock one", got)
	}
	few := made(t, profileOf(configv1.Plugins{MultiPoint: configv1.PluginSet{
		Enabled: slices.Concat(one("PrioritySort"), one("DefaultBinder"), one("NodePorts")), Disabled: all,
	}}))
	if got := namesOf(few.Filter); !strings.Contains(got, "NodePorts") || !strings.Contains(got, "GPUFilter") || strings.Contains(got, "NodeResourcesFit") {
		t.Errorf("filter %s, want the test's plugin and ours, and no stock plugin that the test leaves out", got)
	}
	unbound := made(t, profileOf(configv1.Plugins{Bind: configv1.PluginSet{Enabled: one("DefaultBinder")}}))
	if got := namesOf(unbound.Bind); got != "GPUDevices" {
		t.Errorf("bind %s, want ours in place of the stock one", got)
	}
}

// TestStockIsLeftAlone where the environment says so.
func TestStockIsLeftAlone(t *testing.T) {
	t.Setenv(Scheduler, Stock)
	if got := namesOf(made(t).Bind); got != "DefaultBinder" {
		t.Errorf("bind %s with the stock scheduler", got)
	}
}
