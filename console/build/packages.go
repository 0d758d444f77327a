package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// npmPackage is a package of npm by its version and the digest that the registry gave for it when we chose it.
type npmPackage struct{ name, version, integrity string }

// packages are all that the page is made of beside our own sources. None of them has dependencies beside the others.
var packages = []npmPackage{
	{"preact", "11.2.0", "sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg=="},
	{"@preact/signals", "2.11.4", "sha512-Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw=="},
	{"@preact/signals-core", "1.14.5", "sha512-vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg=="},
}

const (
	registry     = "https://registry.npmjs.org"
	fetchTimeout = time.Minute
	// maxPackage bounds what is read of a package, packed and unpacked.
	maxPackage = 16 << 20
)

// tarballURL returns where the registry has the package.
func (p npmPackage) tarballURL() string {
	return fmt.Sprintf("%s/%s/-/%s-%s.tgz", registry, p.name, path.Base(p.name), p.version)
}

// installPackages unpacks the packages that are not in the folder yet, each after a check of its digest. A mark names the digest that lies there.
func installPackages(ctx context.Context, folder string) error {
	for _, p := range packages {
		target := filepath.Join(folder, filepath.FromSlash(p.name))
		mark := filepath.Join(folder, ".installed-"+strings.ReplaceAll(p.name, "/", "+"))
		if there, err := os.ReadFile(mark); err == nil && string(there) == p.integrity {
			continue
		}
		packed, err := fetchPackage(ctx, p)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(target); err != nil {
			return fmt.Errorf("replacing %s: %w", p.name, err)
		}
		if err := unpackPackage(packed, target); err != nil {
			return fmt.Errorf("unpacking %s: %w", p.name, err)
		}
		if err := os.WriteFile(mark, []byte(p.integrity), 0o600); err != nil {
			return fmt.Errorf("unpacking %s: %w", p.name, err)
		}
	}
	return nil
}

func fetchPackage(ctx context.Context, p npmPackage) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.tarballURL(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", p.name, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w\nThe console is bundled with packages of npm, which are fetched once: "+
			"where %s cannot be reached, copy console/node_modules from a machine that has it", p.name, err, registry)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching %s: %s", p.tarballURL(), answer.Status)
	}
	packed, err := io.ReadAll(io.LimitReader(answer.Body, maxPackage))
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", p.name, err)
	}
	return packed, checkIntegrity(p, packed)
}

// checkIntegrity compares a package with the digest that is written out above.
func checkIntegrity(p npmPackage, packed []byte) error {
	sum := sha512.Sum512(packed)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != p.integrity {
		return fmt.Errorf("%s %s is not the one that was chosen: its digest is %s, want %s", p.name, p.version, got, p.integrity)
	}
	return nil
}

// unpackPackage unpacks the regular files of a package, whose paths all begin with one folder that the target stands for.
func unpackPackage(packed []byte, target string) error {
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	files := tar.NewReader(io.LimitReader(plain, maxPackage))
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, name, ok := strings.Cut(header.Name, "/")
		if header.Typeflag != tar.TypeReg || !ok || !filepath.IsLocal(name) {
			continue
		}
		if err := writeFile(filepath.Join(target, filepath.FromSlash(name)), files); err != nil {
			return err
		}
	}
}

func writeFile(name string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	read, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(name, read, 0o600)
}
