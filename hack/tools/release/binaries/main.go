// Command binaries builds the archives of gpuctl for every system, their checksums, the list of their contents, and the manifest for krew. The same
// source and toolchain give the same bytes. See make release.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"g8s.host/gpu-scheduler/hack/tools/release/bom"
	"g8s.host/gpu-scheduler/hack/tools/release/build"
)

// program is the program that users install on their machines.
const program = "gpuctl"

type options struct {
	builder                     build.Builder
	extra, version, out         string
	url, homepage, platformList string
	epoch                       int64
}

// archive is a written archive.
type archive struct {
	platform           build.Platform
	name, program, sum string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parseOptions(os.Args[1:])
	if err == nil {
		err = buildRelease(ctx, o)
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// semantic matches a semantic version with the prefix v, as Go and krew require.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func parseOptions(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("binaries", flag.ContinueOnError)
	flags.StringVar(&o.builder.Root, "root", ".", "The project's folder")
	flags.StringVar(&o.builder.LDFlags, "ldflags", "", "Flags of the linker")
	flags.StringVar(&o.extra, "extra", "", "A folder whose files go into every archive")
	flags.StringVar(&o.out, "out", "bin/release", "Where the archives go")
	flags.StringVar(&o.version, "version", "", "The version, such as v1.2.3")
	flags.StringVar(&o.url, "url", "https://example.com/g8s/releases/VERSION", "Where the archives will lie; VERSION in it is the version")
	flags.StringVar(&o.homepage, "homepage", "https://example.com/g8s", "The project's page")
	flags.StringVar(&o.platformList, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "What it runs on")
	flags.Int64Var(&o.epoch, "epoch", 0, "The time of all files, in seconds since 1970")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if !semantic.MatchString(o.version) {
		return nil, fmt.Errorf("-version %q: want a semantic version, such as v1.2.3 or v1.2.3-rc.1", o.version)
	}
	o.url = strings.ReplaceAll(o.url, "VERSION", o.version)
	out, err := filepath.Abs(o.out)
	o.out, o.builder.Out = out, filepath.Join(out, ".programs")
	return o, err
}

func buildRelease(ctx context.Context, o *options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err // the error names the folder
	}
	defer func() { _ = os.RemoveAll(o.builder.Out) }()
	extra, err := o.extraFiles()
	if err != nil {
		return err
	}
	var archives []archive
	var sums strings.Builder
	var programs []string
	platforms := strings.Split(o.platformList, ",")
	for i, text := range platforms {
		platform, err := build.ParsePlatform(text)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "making %s for %s (%d of %d)\n", program, platform, i+1, len(platforms))
		path, err := o.builder.Program(ctx, program, platform)
		if err != nil {
			return err
		}
		a, err := o.packPlatform(platform, path, extra)
		if err != nil {
			return fmt.Errorf("packing %s for %s: %w", program, platform, err)
		}
		archives, programs = append(archives, a), append(programs, path)
		fmt.Fprintf(&sums, "%s  %s\n", a.sum, a.name)
	}
	return o.writeDescriptions(archives, programs, sums.String())
}

// writeDescriptions writes the checksums, the list of contents, and the krew manifest.
func (o *options) writeDescriptions(archives []archive, programs []string, sums string) error {
	manifest, err := krewManifest(o.version, o.url, o.homepage, archives)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(o.out, program+".cdx.json"))
	if err != nil {
		return err // the error names the file
	}
	return errors.Join(
		bom.Write(out, program, o.version, cdx.ComponentTypeApplication, programs...), out.Close(),
		os.WriteFile(filepath.Join(o.out, "gpu.yaml"), manifest, 0o644),
		os.WriteFile(filepath.Join(o.out, "SHA256SUMS"), []byte(sums), 0o644),
	)
}

// extraFiles returns the files in every archive besides the program.
func (o *options) extraFiles() ([]entry, error) {
	licence, err := os.ReadFile(filepath.Join(o.builder.Root, "LICENSE"))
	if err != nil {
		return nil, err // the error names the file
	}
	entries := []entry{{"LICENSE", 0o644, licence}}
	if o.extra == "" {
		return entries, nil
	}
	more, err := readFolder(o.extra)
	return append(entries, more...), err
}

func (o *options) packPlatform(p build.Platform, path string, extra []entry) (archive, error) {
	a := archive{platform: p, program: filepath.Base(path)}
	a.name = fmt.Sprintf("%s-%s-%s-%s", program, o.version, p.OS, p.Arch)
	if p.OS == "windows" {
		a.name += ".zip"
	} else {
		a.name += ".tar.gz"
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return a, err // the error names the file
	}
	file := filepath.Join(o.out, a.name)
	if err := writeArchive(file, append([]entry{{a.program, 0o755, data}}, extra...), time.Unix(o.epoch, 0).UTC()); err != nil {
		return a, err
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		return a, err // the error names the file
	}
	sum := sha256.Sum256(packed)
	a.sum = hex.EncodeToString(sum[:])
	return a, nil
}
