package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// userConfig is the configuration file of gpuctl.
type userConfig struct {
	// Namespace is the namespace of jobs if -n is not given.
	Namespace string `json:"namespace,omitempty"`
	// Image is the image of gpuctl run if --image is not given.
	Image string `json:"image,omitempty"`
	// Pool and Preset are the defaults of gpuctl run; see [runOptions.fillDefaults].
	Pool   string `json:"pool,omitempty"`
	Preset string `json:"preset,omitempty"`
	// Lang is the same as the flag --lang.
	Lang string `json:"lang,omitempty"`
	// Prometheus is the same as the flag --prometheus.
	Prometheus string `json:"prometheus,omitempty"`
	// Ledger and LedgerCA are the same as the flags --ledger and --ledger-ca.
	Ledger   string `json:"ledger,omitempty"`
	LedgerCA string `json:"ledger-ca,omitempty"`
}

// setting is one key of the configuration file.
type setting struct {
	key, doc     string
	currentValue func(*userConfig) string
	check        func(string) error
}

var settings = []setting{
	{key: "namespace", doc: "the namespace of jobs, where -n names none", currentValue: func(c *userConfig) string { return c.Namespace }, check: checkNamespace},
	{key: "image", doc: "the image of gpuctl run, where --image names none", currentValue: func(c *userConfig) string { return c.Image }, check: checkImage},
	{key: "pool", doc: "the pool of gpuctl run, where the line names neither pool nor preset", currentValue: func(c *userConfig) string { return c.Pool }, check: checkPoolName},
	{key: "preset", doc: "the preset of gpuctl run, where the line names neither it nor pool nor GPUs", currentValue: func(c *userConfig) string { return c.Preset }, check: checkPresetName},
	{key: "lang", doc: "the language of help and explanations, zh or en", currentValue: func(c *userConfig) string { return c.Lang }, check: checkLanguage},
	{key: "prometheus", doc: "the same as --prometheus", currentValue: func(c *userConfig) string { return c.Prometheus }},
	{key: "ledger", doc: "the same as --ledger", currentValue: func(c *userConfig) string { return c.Ledger }},
	{key: "ledger-ca", doc: "the same as --ledger-ca", currentValue: func(c *userConfig) string { return c.LedgerCA }},
}

func checkNamespace(value string) error {
	if len(validation.IsDNS1123Label(value)) > 0 {
		return usageErrorf("%q is no name of a namespace: use lower-case letters, digits and '-', at most 63", value)
	}
	return nil
}

func checkPoolName(value string) error {
	if err := pool.CheckLabelValue(phrase.Textf("the pool"), value); err != nil {
		return &usageError{err}
	}
	return nil
}

func checkPresetName(value string) error {
	if len(validation.IsDNS1123Label(value)) > 0 {
		return usageErrorf("%q is no name of a preset: use at most 63 lower-case letters, digits and '-'", value)
	}
	return nil
}

func checkImage(value string) error {
	if err := workload.CheckImage(value); err != nil {
		return usageErrorf("%q %w", value, err)
	}
	return nil
}

func findSetting(key string) (setting, error) {
	var keys []string
	for _, s := range settings {
		if s.key == key {
			return s, nil
		}
		keys = append(keys, s.key)
	}
	return setting{}, usageErrorf("there is no setting %q%s: the settings are %s", key, spelling.DidYouMean(key, keys), strings.Join(keys, ", "))
}

// userConfigPath returns the path of the configuration file, or "" if the user has no home directory.
func userConfigPath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "gpuctl", "config.yaml")
}

// readUserConfig reads the configuration file. A missing file is empty.
func readUserConfig() (userConfig, error) {
	config, _, err := loadUserConfig(userConfigPath())
	return config, err
}

// loadUserConfig reads a configuration file, and also returns its raw content.
func loadUserConfig(path string) (userConfig, []byte, error) {
	data, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return userConfig{}, nil, nil
	}
	var config userConfig
	if err == nil {
		err = safeyaml.UnmarshalStrict(data, &config, safeyaml.Configuration)
	}
	if err != nil {
		return userConfig{}, nil, usageErrorf("reading %s: %w", path, rootCause(err))
	}
	return config, data, nil
}

func newConfigCmd(f *Factory) *cobra.Command {
	var doc strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&doc, "\n  %-10s  %s", s.key, s.doc)
	}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "What you do not want to type again: your namespace, your image",
		Long: "What you do not want to type again. The settings are kept in gpuctl/config.yaml, in your configuration\n" +
			"directory:\n" + doc.String(),
		Example: "  gpuctl config set namespace nlp-team\n  gpuctl config view\n  gpuctl config unset namespace",
		Args:    cobra.ArbitraryArgs,
		RunE:    needCommand,
	}
	view := &cobra.Command{
		Use: "view", Short: "Print the settings, and where they are kept", Args: cobra.NoArgs,
		Example: "  gpuctl config view",
		RunE:    func(*cobra.Command, []string) error { return viewConfig(f) },
	}
	set := &cobra.Command{
		Use: "set KEY VALUE", Short: "Change a setting", Args: settingArgs(2), ValidArgsFunction: completeSettings,
		Example: "  gpuctl config set namespace nlp-team\n  gpuctl config set image pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
		RunE: func(_ *cobra.Command, args []string) error {
			if args[1] == "" {
				return usageErrorf("the value is empty: to take a setting away, gpuctl config unset %s", args[0])
			}
			return changeConfig(f, args[0], args[1])
		},
	}
	unset := &cobra.Command{
		Use: "unset KEY", Short: "Take a setting away", Args: settingArgs(1), ValidArgsFunction: completeSettings,
		Example: "  gpuctl config unset namespace",
		RunE:    func(_ *cobra.Command, args []string) error { return changeConfig(f, args[0], "") },
	}
	cmd.AddCommand(view, set, unset)
	return cmd
}

func settingArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return usageErrorf("usage: %s\nSee '%s --help'", cmd.UseLine(), cmd.CommandPath())
	}
}

func completeSettings(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, s := range settings {
		if len(args) == 0 {
			out = append(out, s.key+"\t"+s.doc)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func viewConfig(f *Factory) error {
	config, err := readUserConfig()
	if err != nil {
		return err
	}
	for _, s := range settings {
		if value := s.currentValue(&config); value != "" {
			fmt.Fprintf(f.IO.Out, "%s: %s\n", s.key, value)
		}
	}
	f.IO.printErr("kept in %s", userConfigPath())
	return nil
}

// changeConfig sets a setting, or removes it if the value is empty. The rest of the file, including comments, is preserved. A file that cannot be
// read is not written.
func changeConfig(f *Factory, key, value string) error {
	s, err := findSetting(key)
	if err != nil {
		return err
	}
	if value != "" && s.check != nil {
		if err := s.check(value); err != nil {
			return err
		}
	}
	path := userConfigPath()
	if path == "" {
		return usageErrorf("there is no place for settings: neither XDG_CONFIG_HOME nor HOME is set")
	}
	_, data, err := loadUserConfig(path)
	if err != nil {
		return err
	}
	changed, err := withSetting(data, key, value)
	if err != nil {
		return err
	}
	if err := replaceFile(path, changed); err != nil {
		return err
	}
	if value == "" {
		f.IO.printOut("%s is not set now", key)
		return nil
	}
	f.IO.printOut("%[1]s is %[2]s", key, value) // the indexed verb keeps this text apart from the one for the state of a job
	return nil
}

// withSetting returns a configuration file with one setting changed, or without that setting if the value is empty.
func withSetting(data []byte, key, value string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, phrase.Errorf("reading the settings: %w", err)
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	mapping := document.Content[0]
	at := 0
	for at < len(mapping.Content) && mapping.Content[at].Value != key {
		at += 2
	}
	var name, text yaml.Node
	name.SetString(key)
	text.SetString(value)
	switch found := at < len(mapping.Content); {
	case found && value == "":
		mapping.Content = append(mapping.Content[:at], mapping.Content[at+2:]...)
	case found:
		mapping.Content[at+1] = &text
	case value != "":
		mapping.Content = append(mapping.Content, &name, &text)
	}
	var out bytes.Buffer
	if len(mapping.Content) == 0 {
		return nil, nil
	}
	if err := yaml.NewEncoder(&out).Encode(&document); err != nil {
		return nil, phrase.Errorf("writing the settings: %w", err)
	}
	return out.Bytes(), nil
}

// replaceFile replaces a file atomically: a concurrent reader sees either the old or the new content.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return phrase.Errorf("writing %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".config-*")
	if err != nil {
		return phrase.Errorf("writing %s: %w", path, err)
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(phrase.Errorf("writing %s: %w", path, err), os.Remove(file.Name()))
	}
	return nil
}
