package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/submit"
)

func newSecretCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret {set | list | delete}",
		Short: "Keep passwords, tokens and logins of image registries for jobs",
		Long: "Keep passwords, tokens and logins of image registries for jobs. A job takes a value of a secret as an\n" +
			"environment variable, or the login of a registry to pull its image. Values are never printed.",
		Example: "  gpuctl secret set hugging-face token=hf_abc\n" +
			"  gpuctl run --image i --gpu 1 --secret HF_TOKEN=hugging-face/token python train.py",
		Args: cobra.ArbitraryArgs,
		RunE: needCommand,
	}
	cmd.AddCommand(newSecretSetCmd(f), newSecretListCmd(f), newSecretDeleteCmd(f))
	return cmd
}

type secretSetOptions struct {
	changes
	factory       *Factory
	fromFile      []string
	registry      submit.Registry
	passwordStdin bool
}

func newSecretSetCmd(f *Factory) *cobra.Command {
	o := &secretSetOptions{factory: f}
	o.io, o.output = f.IO, newChangeOutput()
	cmd := &cobra.Command{
		Use:   "set NAME {KEY=VALUE... | --from-file [KEY=]FILE | --registry SERVER}",
		Short: "Create a secret, or set some of its values",
		Long: "Create a secret, or set some of its values; the others stay. A value on the command line stays in the history\n" +
			"of your shell: --from-file reads it from a file, or from standard input, which is -.\n\n" +
			"With --registry it is the login of an image registry, which a job names in environment.image-pull-secret.",
		Example: "  gpuctl secret set hugging-face token=hf_abc\n" +
			"  gpuctl secret set hugging-face --from-file token=- < token.txt\n" +
			"  gpuctl secret set ghcr --registry ghcr.io --username ada --password-stdin < token.txt",
		RunE: func(cmd *cobra.Command, args []string) error { return runSecretSet(cmd, o, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.fromFile, "from-file", nil, "Take a value from a file: KEY=FILE, or FILE, whose name is the key then; may be repeated")
	flags.StringVar(&o.registry.Server, "registry", "", "Keep the login of this image registry, such as ghcr.io")
	flags.StringVar(&o.registry.Username, "username", "", "The name at the registry")
	flags.BoolVar(&o.passwordStdin, "password-stdin", false, "Read the password for the registry from standard input")
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

func runSecretSet(cmd *cobra.Command, o *secretSetOptions, args []string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	if len(args) == 0 {
		return usageErrorf("%s needs a name, and KEY=VALUE, --from-file or --registry\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
	}
	if err := checkObjectName(args[0]); err != nil {
		return err
	}
	values, err := o.readValues(args[1:])
	if err != nil {
		return err
	}
	return o.applyInNamespace(cmd.Context(), o.factory, func(ctx context.Context, writer *submit.Client, namespace string) (submit.Result, error) {
		return writer.SetSecret(ctx, namespace, args[0], values, o.dryRun == dryRunServer)
	})
}

// readValues reads the values of the arguments, files and standard input.
func (o *secretSetOptions) readValues(args []string) (submit.SecretValues, error) {
	plain := len(args)+len(o.fromFile) > 0
	switch {
	case o.registry.Server == "" && (o.passwordStdin || o.registry.Username != ""):
		return submit.SecretValues{}, usageErrorf("--username and --password-stdin are of a registry: give it with --registry")
	case o.registry.Server == "" && !plain:
		return submit.SecretValues{}, usageErrorf("no value: give KEY=VALUE, --from-file or --registry; nothing was done")
	case o.registry.Server == "":
		values, err := o.plainValues(args)
		return submit.SecretValues{Values: values}, err
	case plain:
		return submit.SecretValues{}, usageErrorf("a secret is the login of a registry, or has values of its own: leave out --registry, or KEY=VALUE and --from-file")
	case o.registry.Username == "" || !o.passwordStdin:
		return submit.SecretValues{}, usageErrorf("the login of a registry needs --username and --password-stdin")
	}
	password, err := readFile(o.factory.IO.In, stdin)
	if err != nil {
		return submit.SecretValues{}, err
	}
	login := o.registry
	login.Password = strings.TrimRight(string(password), "\r\n")
	if login.Password == "" {
		return submit.SecretValues{}, usageErrorf("standard input has no password; nothing was done")
	}
	return submit.SecretValues{Registry: &login}, nil
}

// plainValues reads the values of arguments and of files.
func (o *secretSetOptions) plainValues(args []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usageErrorf("%q: write KEY=VALUE; nothing was done", arg)
		}
		if err := addSecretValue(out, key, []byte(value)); err != nil {
			return nil, err
		}
	}
	for _, arg := range o.fromFile {
		key, path, ok := strings.Cut(arg, "=")
		if !ok {
			key, path = arg[strings.LastIndex(arg, "/")+1:], arg
		}
		data, err := readFile(o.factory.IO.In, path)
		if err != nil {
			return nil, err
		}
		if path == stdin { // what a terminal or echo adds
			data = []byte(strings.TrimRight(string(data), "\r\n"))
		}
		if err := addSecretValue(out, key, data); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addSecretValue adds a value whose key is valid and new.
func addSecretValue(values map[string][]byte, key string, value []byte) error {
	if len(validation.IsConfigMapKey(key)) > 0 {
		return usageErrorf("%q is not a valid key: use letters, digits, '-', '_' and '.'; nothing was done", key)
	}
	if _, there := values[key]; there {
		return usageErrorf("key %q is given twice; nothing was done", key)
	}
	values[key] = value
	return nil
}

func newSecretListCmd(f *Factory) *cobra.Command {
	o := &listing[submit.Secret]{}
	cmd := &cobra.Command{
		Use:     "list [NAME]...",
		Aliases: []string{"ls", "get"},
		Short:   "List secrets by name and key, without their values",
		Long:    "List the secrets of the namespace that gpuctl made, by name and key, without their values.",
		Example: "  gpuctl secret list",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			secrets, err := readSecrets(cmd.Context(), f)
			if err != nil {
				return err
			}
			return o.printNamed(secrets)
		},
		ValidArgsFunction: completeSecrets(f),
	}
	*o = listing[submit.Secret]{
		io: f.IO, now: f.Now, noun: "secret",
		columns: secretColumns,
		name:    func(s submit.Secret) string { return s.Name },
		id:      func(s submit.Secret) string { return s.Name },
		print:   func(s submit.Secret) string { return submit.KindSecret + "/" + s.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

func secretColumns(now time.Time) []column[submit.Secret] {
	return []column[submit.Secret]{
		{header: "NAME", value: func(s submit.Secret) string { return s.Name }},
		{header: "REGISTRY", value: func(s submit.Secret) string { return s.Registry }},
		{header: "KEYS", value: func(s submit.Secret) string {
			if s.Registry != "" {
				return ""
			}
			return strings.Join(s.Keys, ",")
		}},
		{header: "AGE", value: func(s submit.Secret) string { return formatAge(now, s.Created) }},
	}
}

// readSecrets reads the secrets of the current namespace that gpuctl made.
func readSecrets(ctx context.Context, f *Factory) ([]submit.Secret, error) {
	namespace, err := f.currentNamespace()
	if err != nil {
		return nil, err
	}
	writer, err := f.newWriter()
	if err != nil {
		return nil, err
	}
	return writer.Secrets(ctx, namespace)
}

func completeSecrets(f *Factory) completer {
	return completeOwnNames(f, func(ctx context.Context, c *submit.Client, namespace string) ([]string, error) {
		secrets, err := c.Secrets(ctx, namespace)
		names := make([]string, len(secrets))
		for i := range secrets {
			names[i] = secrets[i].Name
		}
		return names, err
	})
}

func newSecretDeleteCmd(f *Factory) *cobra.Command {
	o := &namedDeletion{factory: f, deletes: func(ctx context.Context, c *submit.Client, namespace, name string, dryRun bool) (submit.Result, error) {
		return c.DeleteSecret(ctx, namespace, name, dryRun)
	}}
	return o.addFlagsTo(&cobra.Command{
		Use:               "delete NAME...",
		Aliases:           []string{"rm"},
		Short:             "Delete secrets that gpuctl made",
		Long:              "Delete secrets that gpuctl made. Jobs that run keep the values that they have; those that start later need them.",
		Example:           "  gpuctl secret delete hugging-face",
		RunE:              o.run,
		ValidArgsFunction: completeSecrets(f),
	})
}
