# The documentation: its generated pages, and the site. Included by the root Makefile, which defines BUILD, STAMPS, BIN, UV and PYTHON.
.PHONY: docs-pages docs

docs-pages: $(STAMPS)/venv ## Write the generated pages of docs/ from the code
	PYTHONPATH=tests/support $(BIN)/python -m sitepages --write

# The site has requirements of its own, in an environment of its own: nothing else may come to need them.
docs: $(STAMPS)/docs ## Build the documentation as a site, into build/docs/site: warnings are errors, and no link leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BUILD)/docs/.venv/bin/mkdocs build  # not --quiet: it keeps warnings from being errors
	@echo "Open $(BUILD)/docs/site/index.html"
$(STAMPS)/docs: $(UV) requirements/docs.txt
	@mkdir -p $(STAMPS)
	[ -x $(BUILD)/docs/.venv/bin/python ] || $(UV) venv -q --python $(PYTHON) $(BUILD)/docs/.venv
	$(UV) pip sync -q --python $(BUILD)/docs/.venv/bin/python --require-hashes requirements/docs.txt
	@touch $@
