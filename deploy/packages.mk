# packages.mk - installation and packages. The Makefile includes it.

## make install         program, manual page, shell completion below PREFIX (/usr/local); DESTDIR before it
PREFIX ?= /usr/local
.PHONY: install
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/headscope
	$(BINARY) help --man > $(DESTDIR)$(PREFIX)/share/man/man1/headscope.1
	$(BINARY) help --completion > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/headscope

.PHONY: dist deb
## make dist            dist/: sources, programs with their libraries, wheels, Debian package, CycloneDX, checksums
MACHINES ?= x86_64 aarch64
VERSION = $(shell sed -n 's/.*HS_VERSION "\(.*\)"/\1/p' server/base/version.h)
DIST_TAR = tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$$(deploy/source-date.sh)
dist: sources deb wheel $(MACHINES:%=tarball-%)
	$(PYTHON) deploy/sbom.py $(BINARY) > dist/headscope-$(VERSION).cdx.json
	cd dist && rm -f SHA256SUMS SHA256SUMS.sig && sha256sum * > SHA256SUMS
## make sources         dist/: the sources, with the viewer as it was built, so that a program of them needs no npm
.PHONY: sources
sources: all
	@mkdir -p dist
	$(if $(wildcard .git),git archive --prefix=headscope-$(VERSION)/ HEAD, \
	    $(DIST_TAR) --exclude=./build --exclude=./dist --exclude=node_modules --exclude=__pycache__ \
	    --transform 's,^\.,headscope-$(VERSION),S' -c .) > dist/headscope-$(VERSION).tar
	$(DIST_TAR) --transform 's,^,headscope-$(VERSION)/,S' -rf dist/headscope-$(VERSION).tar build/viewer build/viewer_files.c
	gzip -9nf dist/headscope-$(VERSION).tar
## make sign            signs dist/SHA256SUMS with the SSH key KEY=FILE, as SECURITY.md describes
.PHONY: sign
sign:
	ssh-keygen -q -Y sign -f $(KEY) -n headscope dist/SHA256SUMS
## make deb             a Debian package of it in dist/
deb: all packages-deb
	deploy/debian-package.sh dist

## make wheel           dist/: Python packages that hold the program, for x86-64 and arm64; MACHINES=x86_64: for that only
.PHONY: wheel wheel-test $(MACHINES:%=portable-%) $(MACHINES:%=wheel-%) $(MACHINES:%=tarball-%)
wheel: $(MACHINES:%=wheel-%)
$(MACHINES:%=wheel-%): wheel-%: portable-%
	deploy/python-package.sh $*
$(MACHINES:%=tarball-%): tarball-%: portable-%
	@mkdir -p dist
	$(DIST_TAR) --transform 's,^\.,headscope-$(VERSION)-linux-$*,S' -C build/portable/$* -c . | \
	    gzip -9n > dist/headscope-$(VERSION)-linux-$*.tar.gz
portable-aarch64: | packages-wheel-aarch64
$(MACHINES:%=portable-%): portable-%: build/viewer_files.c | packages-wheel
	deploy/portable.sh $*
## make wheel-test      the wheels, and the program unpacked, on bare Debian 11, 12, 13 and sid (needs root)
wheel-test: wheel $(MACHINES:%=tarball-%)
	tests/platforms/wheel.sh
