"""Dated facts with sources: what AWS and NVIDIA state, not what we measured.

Every row of every table names a source (see :mod:`~neuronfit.catalog.sources`) and the date it was
true. Files are read on first use, never at import.

======================  ============================================  =================================
module                  answers                                       file
======================  ============================================  =================================
``instances``           what is inside an EC2 instance type?          ``instances.csv``
``prices``              what does an hour of it cost, on what terms?  ``prices.csv``
``availability``        where and how is it sold at all?              (see the module)
``deployments``         what do EKS, ECS, Batch, SageMaker add?       ``deployments.csv``
``claims``              what does AWS claim, and what became of it?   ``claims.csv``
``published``           what speed has a vendor printed for a model?  ``published.csv``, ``collections.csv``
``paths``               which software runs there, for how long?      ``paths.csv``, ``sdk_versions.csv``
``traps``               what is known to go wrong with this model?    ``traps.csv``
``operators``           what is documented about an ATen operator?    ``operators.csv``
``hlo_opcodes``         what is documented about an HLO opcode?       ``hlo_opcodes.csv``
``compiler_codes``      what does a compiler or runtime code mean?    ``compiler_codes.csv``
``models``              what are the shapes of well-known models?     (see the module)
``sources``             where does a row come from?                   ``sources.csv``
``tables``              (reads the files)
======================  ============================================  =================================

Import the module you need: ``from neuronfit.catalog import prices``.
"""
