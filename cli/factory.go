package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// Factory provides the dependencies of commands, created on first use. A command that needs no cluster does not connect to one.
type Factory struct {
	IO IOStreams
	// Now is the clock for ages.
	Now func() time.Time

	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
	timeout   time.Duration
	lang      languageFlag
	config    func() (*rest.Config, error)
	// renameHint rewrites hints to use the name under which the program was called; nil if that is gpuctl.
	renameHint func(string) string
}

// NewFactory returns a factory that finds the cluster as kubectl does.
func NewFactory(streams IOStreams) *Factory {
	streams.Out, streams.ErrOut = escapeOutput(streams.Out, streams.Color), escapeOutput(streams.ErrOut, false)
	f := &Factory{
		IO:        streams,
		Now:       time.Now,
		rules:     clientcmd.NewDefaultClientConfigLoadingRules(),
		overrides: &clientcmd.ConfigOverrides{},
	}
	f.config = sync.OnceValues(f.loadConfig)
	f.IO.languageSource = f.outputLanguage
	f.IO.hintRenamer = func() func(string) string { return f.renameHint }
	return f
}

// bindFlags adds kubectl's flags that select the cluster, and the language.
func (f *Factory) bindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.rules.ExplicitPath, "kubeconfig", "", "Path of the kubeconfig file to use")
	flags.StringVar(&f.overrides.CurrentContext, "context", "", "Name of the kubeconfig's context to use")
	flags.StringVarP(&f.overrides.Context.Namespace, "namespace", "n", "", "Namespace of the jobs")
	flags.DurationVar(&f.timeout, "request-timeout", 0, "How long one request may take, such as 10s; 0 means no limit")
	flags.StringVar(&f.overrides.AuthInfo.Impersonate, "as", "", "User to act as")
	flags.Var(&f.lang, "lang", "Language of help and explanations: zh or en; by LANG without it")
}

// clientConfig merges the kubeconfig files and the flags; in a pod it falls back to the pod's service account.
func (f *Factory) clientConfig() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, f.overrides)
}

// Burst and rate of requests: a command makes few, all at once.
const (
	clientQPS   = 50
	clientBurst = 100
)

func (f *Factory) loadConfig() (*rest.Config, error) {
	config, err := f.clientConfig().ClientConfig()
	if err != nil {
		return nil, f.configError(err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.UserAgent = "gpuctl/" + clientVersion().Version
	config.Timeout = f.timeout
	config.WarningHandler = rest.NewWarningWriter(f.IO.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// currentNamespace returns the namespace of -n, else of gpuctl's configuration, else of the kubeconfig's context, else "default".
func (f *Factory) currentNamespace() (string, error) {
	config, err := readUserConfig()
	if err != nil {
		return "", err
	}
	if f.explicitNamespace() == "" && config.Namespace != "" {
		return config.Namespace, nil
	}
	namespace, _, err := f.clientConfig().Namespace()
	if err != nil {
		return "", f.configError(err)
	}
	return namespace, nil
}

// configError distinguishes a missing kubeconfig from an invalid one.
func (f *Factory) configError(err error) error {
	empty := errors.Is(err, rest.ErrNotInCluster) || clientcmd.IsEmptyConfig(err)
	if named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); named != "" && empty && f.rules.ExplicitPath == "" {
		there := func(file string) bool { _, err := os.Stat(file); return err == nil }
		if !slices.ContainsFunc(filepath.SplitList(named), there) {
			return &noConfigError{file: named}
		}
	}
	if empty {
		return errNoCluster
	}
	return usageErrorf("reading the kubeconfig: %w", err)
}

// explicitNamespace returns the namespace of -n, or "" without it. Commands that need no cluster must not depend on the kubeconfig.
func (f *Factory) explicitNamespace() string { return f.overrides.Context.Namespace }

// newKubernetesClient returns a client for reads. It uses protobuf because pod lists are large.
func (f *Factory) newKubernetesClient() (kubernetes.Interface, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clientset, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, phrase.Errorf("connecting to the cluster: %w", err)
	}
	return clientset, nil
}

func (f *Factory) newReader() (*inventory.Reader, error) {
	clientset, err := f.newKubernetesClient()
	if err != nil {
		return nil, err
	}
	return inventory.NewReader(clientset), nil
}

// presetTexts reads the unparsed presets that jobs may name.
func (f *Factory) presetTexts(ctx context.Context) (map[string]string, error) {
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	return reader.Presets(ctx)
}

func (f *Factory) newWriter() (*submit.Client, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	return submit.Connect(config)
}
