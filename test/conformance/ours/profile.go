package ours

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/manifests"
	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme" // for the arguments of the plugins
	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/plugins/gpudevices"
)

// The plugins that ours stand in place of.
const defaultBinder, prioritySort = "DefaultBinder", "PrioritySort"

// shipped is what the configuration that we ship adds to a profile.
type shipped struct {
	profile config.KubeSchedulerProfile
	// stock is the profile of a scheduler without configuration, and runs has the plugins that run by ours, at each extension point.
	stock config.KubeSchedulerProfile
	runs  *config.Plugins
	ours  map[string]bool
}

// readShipped reads it for each scheduler, as what the arguments of plugins may have depends on feature gates, which tests turn off.
func readShipped() (*shipped, error) {
	data, err := manifests.FS.ReadFile("scheduler/scheduler-config.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the configuration that we ship: %w", err)
	}
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration that we ship: %w", err)
	}
	cfg, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("reading the configuration that we ship: it is a %s", kind)
	}
	for _, of := range cfg.Profiles[0].PluginConfig {
		if args, ok := of.Args.(*configv1.GPUScoreArgs); ok {
			args.PolicyFile = "" // which has the defaults
		}
	}
	s := &shipped{profile: cfg.Profiles[0], ours: map[string]bool{}}
	for name := range plugins.Registry(plugins.Dependencies{}) {
		s.ours[name] = true
	}
	if s.stock, err = stockProfile(); err != nil {
		return nil, err
	}
	s.runs, err = runningBy(s.profile)
	return s, err
}

// runningBy are the plugins that run by a profile.
func runningBy(of config.KubeSchedulerProfile) (*config.Plugins, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown() // the suites look for goroutines that are left
	sched, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithKubeConfig(&rest.Config{Host: "https://127.0.0.1:1"}), // which nothing asks
		scheduler.WithProfiles(of), scheduler.WithFrameworkOutOfTreeRegistry(plugins.Registry(plugins.Dependencies{})))
	if err != nil {
		return nil, fmt.Errorf("reading which plugins run: %w", err)
	}
	return sched.Profiles[of.SchedulerName].ListPlugins(), nil
}

func stockProfile() (config.KubeSchedulerProfile, error) {
	var versioned kubeschedulerv1.KubeSchedulerConfiguration
	var cfg config.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	if err := scheme.Scheme.Convert(&versioned, &cfg, nil); err != nil {
		return config.KubeSchedulerProfile{}, fmt.Errorf("reading the configuration of the stock scheduler: %w", err)
	}
	return cfg.Profiles[0], nil
}

// mix returns the profiles of a test with what is ours, that of the stock scheduler where the test names none.
func (s *shipped) mix(profiles []config.KubeSchedulerProfile) []config.KubeSchedulerProfile {
	if len(profiles) == 0 {
		profiles = []config.KubeSchedulerProfile{s.stock}
	}
	mixed := make([]config.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		mixed[i] = *profiles[i].DeepCopy()
		s.addTo(&mixed[i])
	}
	return mixed
}

// addTo adds what is ours to a profile of a test. Where the test has a plugin of its own sort the queue or bind, that does: it is what is tested.
func (s *shipped) addTo(to *config.KubeSchedulerProfile) {
	if to.Plugins == nil {
		to.Plugins = s.stock.Plugins.DeepCopy()
	}
	if to.PercentageOfNodesToScore == nil {
		to.PercentageOfNodesToScore = ptr.To(*s.profile.PercentageOfNodesToScore)
	}
	sorts, binds := s.ownSort(to.Plugins), s.ownBind(to.Plugins)
	mixed, from, runs := reflect.ValueOf(to.Plugins).Elem(), reflect.ValueOf(s.profile.Plugins).Elem(), reflect.ValueOf(s.runs).Elem()
	for i := range mixed.NumField() {
		set, isSet := mixed.Field(i).Addr().Interface().(*config.PluginSet)
		if !isSet {
			continue
		}
		switch name := mixed.Type().Field(i).Name; {
		case name == "MultiPoint":
			s.addMissing(set, from.Field(i).Interface().(config.PluginSet).Enabled)
		case name == "QueueSort" && sorts:
			set.Disabled = append(set.Disabled, config.Plugin{Name: coscheduling.Name})
		case name == "Bind" && binds:
			replace(set, defaultBinder, gpudevices.Name)
		case has(set.Disabled, "*"):
			s.addMissing(set, runs.Field(i).Interface().(config.PluginSet).Enabled)
		default:
			s.addExplicit(set, from.Field(i).Interface().(config.PluginSet), to.Plugins.MultiPoint)
		}
	}
	for _, args := range s.profile.PluginConfig {
		if s.ours[args.Name] {
			to.PluginConfig = append(to.PluginConfig, args)
		}
	}
}

// ownSort reports whether a test has a plugin of its own sort the queue.
func (s *shipped) ownSort(of *config.Plugins) bool {
	return len(of.QueueSort.Enabled) > 0 && !has(of.QueueSort.Enabled, prioritySort)
}

// ownBind reports whether a test says which plugins bind.
func (s *shipped) ownBind(of *config.Plugins) bool {
	return len(of.Bind.Enabled) > 0 || has(of.Bind.Disabled, defaultBinder) || !has(of.MultiPoint.Enabled, defaultBinder)
}

// addMissing appends plugins that are ours, behind those that a test has.
func (s *shipped) addMissing(to *config.PluginSet, from []config.Plugin) {
	for _, plugin := range from {
		if s.ours[plugin.Name] && !has(to.Enabled, plugin.Name) {
			to.Enabled = append(to.Enabled, plugin)
		}
	}
}

// addExplicit orders an extension point as the configuration that we ship does, with the test's own plugins behind. Stock plugins that the test turned
// off or left out stay out: the test gives them no arguments.
func (s *shipped) addExplicit(to *config.PluginSet, from, multiPoint config.PluginSet) {
	enabled := slices.DeleteFunc(slices.Clone(from.Enabled), func(p config.Plugin) bool {
		leftOut := !s.ours[p.Name] && !has(multiPoint.Enabled, p.Name) && !has(to.Enabled, p.Name)
		return leftOut || has(to.Disabled, p.Name)
	})
	for _, plugin := range to.Enabled {
		if !has(enabled, plugin.Name) && !has(from.Disabled, plugin.Name) {
			enabled = append(enabled, plugin)
		}
	}
	to.Enabled = enabled
	for _, plugin := range from.Disabled {
		if !has(to.Enabled, plugin.Name) && !has(to.Disabled, plugin.Name) {
			to.Disabled = append(to.Disabled, plugin)
		}
	}
}

// replace has another plugin run where a test names one.
func replace(in *config.PluginSet, one, other string) {
	for i := range in.Enabled {
		if in.Enabled[i].Name == one {
			in.Enabled[i].Name = other
			in.Disabled = append(in.Disabled, config.Plugin{Name: one})
		}
	}
}

func has(in []config.Plugin, name string) bool {
	return slices.ContainsFunc(in, func(p config.Plugin) bool { return p.Name == name })
}
