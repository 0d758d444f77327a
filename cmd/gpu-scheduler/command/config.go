package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/manifests"
	configscheme "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	"g8s.host/gpu-scheduler/pkg/configcheck"
)

const checkLong = `Say what a configuration file means before a scheduler starts with it: which plugins run at
each extension point and in which order, with which weights and arguments, every default
filled in, and what that changes against another configuration. No cluster is asked.

FILE is a KubeSchedulerConfiguration, a scoring policy (kind GPUScoreArgs), or - for the
standard input. The exit code is 0 if the scheduler starts with it, and 1 if not: unknown
fields are named with their line and what was probably meant.`

const checkExample = `  gpu-scheduler config check scheduler-config.yaml

  # What does the file change against the one that runs?
  kubectl get configmap -n kube-system -o 'jsonpath={.data.scheduler-config\.yaml}' \
    $(kubectl get deployment gpu-scheduler -n kube-system \
      -o 'jsonpath=` + configcheck.MountedConfig + `') > running.yaml
  gpu-scheduler config check proposed.yaml --against running.yaml

  # What do all our plugins change against kube-scheduler without them?
  gpu-scheduler config check scheduler-config.yaml --against kube-scheduler`

// Values of --against beside files.
const (
	againstShipped = "shipped"
	againstStock   = "kube-scheduler"
	stockConfig    = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: gpu-scheduler}]\n"
)

// largestConfig is more than a ConfigMap holds.
const largestConfig = 1 << 20

// configCheck is the request of the user.
type configCheck struct {
	against, output string
	in              io.Reader
	out             io.Writer
}

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at configuration files of the scheduler",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheckCommand())
	cmd.SetUsageFunc((&cobra.Command{}).UsageFunc()) // that of the parent lists the scheduler's own flags
	cmd.SetHelpFunc((&cobra.Command{}).HelpFunc())
	return cmd
}

func newCheckCommand() *cobra.Command {
	c := &configCheck{}
	cmd := &cobra.Command{
		Use:     "check FILE",
		Short:   "Say what a configuration means, and what it changes",
		Long:    checkLong,
		Example: checkExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want one FILE, got %d: gpu-scheduler config check scheduler-config.yaml", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.in, c.out = cmd.InOrStdin(), cmd.OutOrStdout()
			silenceLogs()
			return reportError(cmd, c.runCheck(cmd.Context(), args[0]))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.against, "against", againstShipped,
		"Configuration to compare with: a file, shipped (the one of manifests/scheduler), or kube-scheduler (its own defaults)")
	flags.StringVarP(&c.output, "output", "o", "table", "Output: table or json")
	return cmd
}

func (c *configCheck) runCheck(ctx context.Context, file string) error {
	if c.output != "table" && c.output != "json" {
		return fmt.Errorf("--output is %q, want table or json", c.output)
	}
	data, err := c.readFile(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	meaning, err := configcheck.Read(ctx, data)
	if mistakes := (configcheck.Mistakes)(nil); errors.As(err, &mistakes) {
		return fmt.Errorf("%s has fields that nothing reads:\n%w", file, mistakes)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	before, err := c.readAgainst(ctx, meaning.IsPolicy())
	if err != nil {
		return err
	}
	changes := configcheck.FindChanges(before, meaning)
	if c.output == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			*configcheck.Meaning

			Against string               `json:"against"`
			Changes []configcheck.Change `json:"changes"`
		}{meaning, c.against, changes})
	}
	if err := configcheck.Write(c.out, meaning); err != nil {
		return err
	}
	return configcheck.WriteChanges(c.out, againstName(c.against), changes)
}

// readAgainst reads the configuration to compare with, which must be of the same kind.
func (c *configCheck) readAgainst(ctx context.Context, policy bool) (*configcheck.Meaning, error) {
	var data []byte
	var err error
	switch {
	case c.against == againstShipped && policy:
		data, err = manifests.FS.ReadFile(shippedPolicy)
	case c.against == againstShipped:
		data, err = manifests.FS.ReadFile(shippedConfig)
	case c.against == againstStock:
		data = []byte(stockConfig)
	default:
		data, err = c.readFile(c.against)
	}
	if err != nil {
		return nil, fmt.Errorf("reading --against %s: %w", c.against, err)
	}
	meaning, err := configcheck.Read(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("--against %s: %w", c.against, err)
	}
	if meaning.IsPolicy() != policy {
		return nil, fmt.Errorf("--against %s: one of the two is a scoring policy, the other a configuration: give two of a kind", c.against)
	}
	return meaning, nil
}

func (c *configCheck) readFile(file string) ([]byte, error) {
	from := c.in
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the file
		}
		defer func() { _ = opened.Close() }() // it was only read
		from = opened
	}
	data, err := io.ReadAll(io.LimitReader(from, largestConfig+1))
	if err == nil && len(data) > largestConfig {
		err = fmt.Errorf("it is larger than %d bytes, and so no configuration", largestConfig)
	}
	return data, err
}

func againstName(against string) string {
	switch against {
	case againstShipped:
		return "what is shipped (--against names another)"
	case againstStock:
		return "kube-scheduler's own defaults"
	}
	return against
}

// checkVersion warns about a configuration of an older version, with which the scheduler starts all the same, and rejects one that it would
// misread.
func checkVersion(file string, warn func(string)) error {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading --config: %w", err)
	}
	warning, err := configscheme.CheckVersion(data)
	if err != nil {
		return fmt.Errorf("reading --config %s: %w", file, err)
	}
	if warning != "" {
		warn(warning)
	}
	return nil
}
