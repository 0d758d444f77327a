package simulate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	configscheme "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
)

// ParseConfig reads kube-scheduler's configuration as the scheduler does: unknown fields and bad values are errors.
func ParseConfig(data []byte) (*config.KubeSchedulerConfiguration, error) {
	if _, err := configscheme.CheckVersion(data); err != nil {
		return nil, fmt.Errorf("parsing the scheduler configuration: %w", err)
	}
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("parsing the scheduler configuration: %w", err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("parsing the scheduler configuration: it is a %s, want a KubeSchedulerConfiguration", gvk.Kind)
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, fmt.Errorf("checking the scheduler configuration: %w", err)
	}
	return cfg, nil
}

// SetPolicy applies a scoring policy, the content of GPUScore's policyFile, to every profile.
func SetPolicy(cfg *config.KubeSchedulerConfiguration, policy []byte) error {
	args, err := configv1.ParseScorePolicy(policy)
	if err != nil {
		return err
	}
	for i := range cfg.Profiles {
		replaceScoreArgs(&cfg.Profiles[i], func(*configv1.GPUScoreArgs) *configv1.GPUScoreArgs { return args.DeepCopy() })
	}
	return nil
}

// ReadPolicyFiles replaces each policyFile by its content, so that a run does not follow a file. A missing file leaves the other arguments in effect,
// as in production; its path is returned.
func ReadPolicyFiles(cfg *config.KubeSchedulerConfiguration) (missing []string, err error) {
	for i := range cfg.Profiles {
		replaceScoreArgs(&cfg.Profiles[i], func(args *configv1.GPUScoreArgs) *configv1.GPUScoreArgs {
			if args.PolicyFile == "" {
				return args
			}
			data, readErr := os.ReadFile(args.PolicyFile)
			if readErr != nil {
				inline := args.DeepCopy()
				inline.PolicyFile = ""
				if missing = append(missing, args.PolicyFile); !errors.Is(readErr, fs.ErrNotExist) {
					err = errors.Join(err, fmt.Errorf("reading the scoring policy: %w", readErr))
				}
				return inline
			}
			policy, parseErr := configv1.ParseScorePolicy(data)
			if parseErr != nil {
				err = errors.Join(err, fmt.Errorf("reading %s: %w", args.PolicyFile, parseErr))
				return args
			}
			return policy
		})
	}
	return missing, err
}

func replaceScoreArgs(profile *config.KubeSchedulerProfile, replace func(*configv1.GPUScoreArgs) *configv1.GPUScoreArgs) {
	for i := range profile.PluginConfig {
		if profile.PluginConfig[i].Name != gpuscore.Name {
			continue
		}
		if args, ok := profile.PluginConfig[i].Args.(*configv1.GPUScoreArgs); ok {
			profile.PluginConfig[i].Args = replace(args)
			return
		}
	}
	if args := replace(&configv1.GPUScoreArgs{}); args != nil {
		profile.PluginConfig = append(profile.PluginConfig, config.PluginConfig{Name: gpuscore.Name, Args: args})
	}
}

// UsesLedger reports whether a configuration reserves starts by the data of a ledger.
func UsesLedger(cfg *config.KubeSchedulerConfiguration) bool {
	for i := range cfg.Profiles {
		for _, plugin := range cfg.Profiles[i].PluginConfig {
			if args, ok := plugin.Args.(*configv1.GPUFilterArgs); ok && args.PromiseLedger != "" {
				return true
			}
		}
	}
	return false
}
