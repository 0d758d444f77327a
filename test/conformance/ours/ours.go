// Package ours makes the scheduler that Kubernetes' own tests ask for, as cmd/gpu-scheduler makes one: our plugins and their settings are added to
// the profiles of a test, and what plugins cannot do is done to the scheduler. It stands where the tests call scheduler.New.
package ours

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"unsafe"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"g8s.host/gpu-scheduler/pkg/backpressure"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/plugins"
)

// Scheduler is the variable of the environment that says whose scheduler is made: "stock", or ours.
const Scheduler = "CONFORMANCE_SCHEDULER"

// Stock is its value that has the tests run as Kubernetes runs them.
const Stock = "stock"

// bindings is how many may be under way at most, as cmd/gpu-scheduler has it.
const bindings = 128

// Refusal begins the error of New where cmd/gpu-scheduler would refuse to start, as with a feature gate that it does not support.
const Refusal = "gpu-scheduler refuses to start: "

func isStock() bool { return os.Getenv(Scheduler) == Stock }

// The gates are read when the tests begin. Each of them may set others.
func init() {
	if isStock() {
		return
	}
	for feature, enabled := range plugins.FeatureDefaults {
		if err := utilfeature.DefaultMutableFeatureGate.OverrideDefault(feature, enabled); err != nil {
			panic(fmt.Sprintf("setting the default of feature gate %s: %v", feature, err)) //nolint:forbidigo // nothing takes an error from here: the tests begin next
		}
	}
}

// New is scheduler.New with all that is ours.
func New(ctx context.Context, client kubernetes.Interface, objects informers.SharedInformerFactory,
	others dynamicinformer.DynamicSharedInformerFactory, recorders profile.RecorderFactory, options ...scheduler.Option,
) (*scheduler.Scheduler, error) {
	if isStock() {
		return scheduler.New(ctx, client, objects, others, recorders, options...) //nolint:wrapcheck // it stands in its place
	}
	if err := plugins.CheckFeatures(utilfeature.DefaultFeatureGate); err != nil {
		return nil, fmt.Errorf(Refusal+"%w", err)
	}
	profiles, err := read[[]config.KubeSchedulerProfile](options, "profiles")
	if err != nil {
		return nil, err
	}
	registry, err := read[runtime.Registry](options, "frameworkOutOfTreeRegistry")
	if err != nil {
		return nil, err
	}
	shipped, err := readShipped()
	if err != nil {
		return nil, err
	}
	gate, attempts := backpressure.NewGate(bindings), &cycle.Attempts{}
	all := plugins.Registry(plugins.Dependencies{Gate: gate, Attempts: attempts, Explain: explain.NewRecorder(explain.DefaultLimits)})
	if err := all.Merge(registry); err != nil {
		return nil, fmt.Errorf("adding the plugins of the test: %w", err)
	}
	sched, err := scheduler.New(ctx, client, objects, others, recorders, append(options,
		scheduler.WithProfiles(shipped.mix(profiles)...), scheduler.WithFrameworkOutOfTreeRegistry(all))...)
	if err != nil {
		return nil, err //nolint:wrapcheck // it stands in its place
	}
	made := maps.Clone(sched.Profiles)
	plugins.Wrap(sched, plugins.Options{Gate: gate, Attempts: attempts})
	for name, profile := range made {
		if batches, ok := profile.(batchCounter); ok {
			sched.Profiles[name] = counted{sched.Profiles[name], batches}
		}
	}
	return sched, nil
}

// batchCounter is what tests of batching ask kube-scheduler's own profile, beside what is in its interface.
type batchCounter interface{ TotalBatchedPods() int64 }

// counted is a profile of ours that answers them, too.
type counted struct {
	framework.Framework
	batchCounter
}

// read is what options set a field to that is the scheduler's own to read.
func read[T any](options []scheduler.Option, field string) (T, error) {
	var none T
	set := reflect.New(reflect.TypeFor[scheduler.Option]().In(0).Elem())
	for _, option := range options {
		reflect.ValueOf(option).Call([]reflect.Value{set})
	}
	value := set.Elem().FieldByName(field)
	if !value.IsValid() || value.Type() != reflect.TypeFor[T]() {
		return none, fmt.Errorf("the options of scheduler.New have no %s of type %s any more", field, reflect.TypeFor[T]())
	}
	is, _ := reflect.NewAt(value.Type(), unsafe.Pointer(value.UnsafeAddr())).Elem().Interface().(T)
	return is, nil
}
